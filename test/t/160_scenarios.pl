# The scenarios of IbltScenarios.pm in which nothing happens while rows are compared.
use IbltScenarios;

scenarios('rest');
done_testing();
