# The scenarios of IbltRepairs.pm.
use IbltRepairs;

repairs();
done_testing();
