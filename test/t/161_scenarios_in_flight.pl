# The scenarios of IbltScenarios.pm in which something happens while rows are compared, or which need a standby.
use IbltScenarios;

scenarios('flight');
done_testing();
