from tests.cli.conftest import fa4sim as fa4sim
