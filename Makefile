# `make help` lists the targets. Steps longer than a line are scripts in .ci/.

PYTHON ?= $(firstword $(foreach name,python3 python3.14 python3.13 python3.12 python3.11,$(shell \
	$(name) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $(name))) python3)
PYTHON35 ?= python3.11
VENV := .venv
VENV35 := .venv35
VENV_BENCH := .venv-bench
WITH_JAVA := .ci/java.sh
# Three at a time where many tests wait for a server or for a process to start; else as many as two cores can run.
WORKERS := 3
PYTEST = -m pytest -n $(WORKERS) --dist loadgroup
UNIT := $(addprefix tests/,errors rules storage config formats dataset plan engine pipeline) \
	tests/test_architecture.py mutator

# Each of these variables could select a Spark or Python outside the virtual environment.
unexport SPARK_HOME SPARK_CONF_DIR PYSPARK_PYTHON PYSPARK_DRIVER_PYTHON PYTHONPATH PYTHONHOME
# The tests start hundreds of processes; without .pyc files each would compile the package again.
unexport PYTHONDONTWRITEBYTECODE
# Spark resolves its own host name, which may fail on a bare machine.
export SPARK_LOCAL_IP ?= 127.0.0.1

# Targets run one at a time, even with `make -j`: two runs of Spark or of apt-get would only wait for each other.
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help venv java hadoop browser debezium demo lint test-unit test test-rest test-all test-spark35 mutants soak bench reference docs dist zip clean

help:  ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16

venv: $(VENV)/stamp  ## make .venv with mutator and its tools
java:  ## look for Java 17 or newer; as root on Debian or Ubuntu, install it
	@$(WITH_JAVA)

demo: $(VENV)/package java  ## run the sample data through the main job, with and without Spark, and show what changed
	@$(WITH_JAVA) .ci/demo.sh $(VENV)/bin/mutator build/demo

lint: venv  ## ruff and mypy
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy

hadoop: venv java  ## fetch Hadoop's servers for the tests, if Maven is reachable
	@$(WITH_JAVA) .ci/hadoop.sh $(VENV)/bin/python build/hadoop

browser:  ## look for Chromium and fetch axe-core for the tests of HTML pages; as root on Debian or Ubuntu, install them
	@.ci/browser.sh build/browser

debezium: java  ## look for PostgreSQL and MariaDB and fetch Debezium's engine; as root on Debian or Ubuntu, install them
	@.ci/debezium.sh build/debezium

test-unit: venv  ## the tests that need no Java and no servers, in a minute
	JAVA_HOME=/nonexistent $(VENV)/bin/python -m pytest -n 2 -m "not (jvm or server or processes or rest or soak)" $(UNIT)

test: WORKERS := 2
test: venv java  ## one case of each engine, join, format and protocol, in five minutes
	$(WITH_JAVA) $(VENV)/bin/python $(PYTEST) -m "not (rest or soak)"

test-rest: export MUTATOR_EFFORT = rest
test-rest: venv java hadoop browser debezium lint  ## the other tests but the soak, and the laws with more examples
	$(WITH_JAVA) $(VENV)/bin/python $(PYTEST) -m "(rest or law) and not soak"

test-all: test test-rest  ## everything but the soak, as CI runs it

# The Hadoop login of Spark 3.5 fails on Java 24 and newer.
test-spark35: export NEWEST_JAVA = 23
test-spark35: $(VENV35)/stamp java browser debezium  ## the same tests on Spark 3.5, with Python 3.11
	@$(WITH_JAVA) .ci/hadoop.sh $(VENV35)/bin/python build/hadoop
	MUTATOR_EFFORT=rest $(WITH_JAVA) $(VENV35)/bin/python $(PYTEST) -m "not soak"

# FAULTS=... for the options of .ci/mutants.py and the names of faults
mutants: venv java hadoop browser debezium  ## plant each fault of tests/mutants in a copy, and run the tests that reach it
	$(WITH_JAVA) $(VENV)/bin/python .ci/mutants.py $(FAULTS)

# MUTATOR_EFFORT=full draws all examples of each law; MUTATOR_RACES is the number of races on servers.
soak: export MUTATOR_RACES ?= 100
soak: export MUTATOR_EFFORT ?= soak
soak: venv java hadoop browser debezium  ## the long runs, and the laws with three times the examples of test-rest
	$(WITH_JAVA) $(VENV)/bin/python $(PYTEST) -m "soak or race or law"

# SIZE=smoke, 4m, 12m or a number of rows; BENCH=... for the other options of `python -m bench`
SIZE ?= 4m
# Hudi needs Spark 3.5, which supports Python up to 3.11 and Java up to 23.
bench: export NEWEST_JAVA = 23
bench: $(VENV_BENCH)/stamp java  ## compare with other systems; SIZE=smoke, 4m (default) or 12m
	@$(WITH_JAVA) .ci/hadoop.sh $(VENV_BENCH)/bin/python build/hadoop
	$(WITH_JAVA) $(VENV_BENCH)/bin/python -m bench --size $(SIZE) $(BENCH)

reference: venv  ## rewrite the reference of the settings from their definitions
	$(VENV)/bin/python .ci/reference.py

docs: venv  ## build/docs: the pages as a site with search; checks links and spelling
	$(VENV)/bin/sphinx-build -n -W --keep-going -q docs build/docs
	$(VENV)/bin/codespell README.md CHANGELOG.md CONTRIBUTING.md docs/*.md

dist: venv  ## build/dist: wheel and sdist
	$(VENV)/bin/python -m build --outdir build/dist . >build/dist.log || (cat build/dist.log; false)

zip: venv  ## build/mutator.zip for spark-submit --py-files
	$(VENV)/bin/python .ci/zip.py build/mutator.zip

clean:  ## remove everything that make created
	rm -rf $(VENV) $(VENV35) $(VENV_BENCH) build *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

# The package and what it needs to run; the tools of `make venv` are added to it.
$(VENV)/package: pyproject.toml setup.cfg .ci/venv.sh
	.ci/venv.sh $(VENV) "$(PYTHON)" -e .
	touch $@

$(VENV)/stamp: $(VENV)/package
	$(VENV)/bin/python -m pip install --disable-pip-version-check --quiet -e '.[dev]'
	touch $@

# Spark 3.5 supports Python up to 3.11.
$(VENV35)/stamp: pyproject.toml setup.cfg .ci/venv.sh
	.ci/venv.sh $(VENV35) "$(PYTHON35)" -e '.[dev]' 'pyspark==3.5.*'
	touch $@

$(VENV_BENCH)/stamp: pyproject.toml setup.cfg .ci/venv.sh
	.ci/venv.sh $(VENV_BENCH) "$(PYTHON35)" -e '.[bench]'
	touch $@
