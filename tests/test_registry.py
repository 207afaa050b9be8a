"""The registry, on real SQLite files and a real Postgres: the same tests for both."""

import contextlib
import json
import pwd
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from model.errors import AskError
from model.schema import Link, Table
from service.registry import Registry, RegistryError, UnknownModelError, UnknownTableError
from service.registry.database import connect
from service.registry.migrate import HEAD, SCRIPTS
from service.registry.rows import Base

pytest_plugins = ["tests.postgres"]

ROOT = Path(__file__).parent.parent
WEIGHT = Link("wt", "weight", 1000.0, 0.5, ("?", "-"))
CYLINDERS = Link("cyl", "cylinders")
AUTO = Table("auto", (Link("weight", "weight"), Link("cylinders", "cylinders")))
MTCARS = Table("mtcars", (WEIGHT, CYLINDERS))
FACTS = {
    "created": "2026-01-02T03:04:05Z",
    "preset": "default",
    "seed": 2**40,
    "metrics": {"auto": {"mpg": {"rmse": 2.75, "note": "größer", "auroc": None}}},
    "features": [("weight", "numeric"), ("cylinders", "ordinal"), ("mpg", "numeric")],
}

# What other processes do: each says it is ready, waits for a line, then says what became of it.
OPENING = """
import alembic.command, json, sys  # loaded before, so that all migrate at the same moment
from service.registry import Registry
print("ready", flush=True)
sys.stdin.readline()
with Registry.open(sys.argv[1]) as registry:
    print(json.dumps(registry.revision()))
"""
PUBLISHING = """
import json, sys, time
from service.registry import Registry
with Registry.open(sys.argv[1]) as registry:
    print("ready", flush=True)
    sys.stdin.readline()
    model, is_new = registry.add_model(
        name="cars", sha256=sys.argv[2], created="", preset="", seed=0, metrics={}, features=[], tables=[],
        place=lambda ref: time.sleep(0.3), activate=True)
    print(json.dumps([model.ref, is_new]))
"""
WATCHING = """
import json, sys, time
from service.registry import Registry
with Registry.open(sys.argv[1]) as registry:
    before = registry.revision()
    print("ready", flush=True)
    deadline = time.monotonic() + 10
    while registry.revision() == before and time.monotonic() < deadline:
        time.sleep(0.02)
    print(json.dumps([registry.revision() - before, registry.active().ref]))
"""
OPENING_AGAIN = """
import json, sys
from service.registry import Registry
with Registry.open(sys.argv[1]) as registry:
    print(json.dumps([registry.revision(), sorted(m for m in sys.modules if m.split(".")[0] == "alembic")]))
"""
# Root steps down: only others are held by the permissions of files.
WRITING_WITHOUT_RIGHTS = """
import os, sys
from service.registry import Registry, RegistryError
folder, mode, nobody = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with Registry.open(f"sqlite:///{folder}/registry.db") as registry:
    registry.put_table("mine", [])
os.chmod(f"{folder}/registry.db", 0o444)
os.chmod(folder, mode)
if os.geteuid() == 0:
    os.seteuid(nobody)
try:
    with Registry.open(f"sqlite:///{folder}/registry.db") as registry:
        registry.drop_table("mine")
except RegistryError as error:
    sys.exit(str(error))
"""


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path}/new folder/registry.db"


@pytest.fixture
def registry(url):
    with Registry.open(url) as opened:
        yield opened


def publish(registry, sha256="a" * 64, *, name="cars", tables=(AUTO, MTCARS), place=lambda ref: None, activate=True):
    return registry.add_model(name=name, sha256=sha256, tables=tables, place=place, activate=activate, **FACTS)


def start(program, *args):
    """Another process, ready to go on when it is sent a line."""
    return subprocess.Popen(
        [sys.executable, "-c", program, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )


def answers(processes, until=lambda: None):
    """Let all go on at once; what each said."""
    with contextlib.ExitStack() as stack:
        for process in processes:
            stack.enter_context(process)
        for process in processes:
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            process.stdin.write("\n")
            process.stdin.flush()
        until()
        said = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    return [json.loads(line) for line in said]


def run(url, statement):
    database = connect(url, 1.0)
    with database.writer.begin() as connection:
        connection.execute(text(statement))
    database.close()


# --- models ---------------------------------------------------------------------------------------------------------


def test_a_fresh_registry_is_empty(registry):
    snapshot = registry.snapshot()
    assert (snapshot.revision, snapshot.active, snapshot.registered) == (0, None, {})
    assert (registry.models(), registry.active(), registry.revision()) == ([], None, 0)


def test_a_published_model_reads_back_as_it_was_given(registry):
    placed = []
    model, is_new = publish(registry, place=placed.append)
    assert is_new
    assert placed == ["cars@1"]
    assert (model.name, model.version, model.ref, model.sha256) == ("cars", 1, "cars@1", "a" * 64)
    assert {name: getattr(model, name) for name in FACTS} == {**FACTS, "features": tuple(FACTS["features"])}
    assert (model.status, model.active) == ("ready", True)
    assert model.published.tzinfo is UTC
    assert abs(datetime.now(UTC) - model.published) < timedelta(minutes=1)
    assert registry.active() == registry.model("cars") == registry.model("cars@1") == model
    assert registry.models() == [model]
    assert (registry.snapshot().active, registry.revision()) == ("cars@1", 1)


def test_publishing_the_same_bundle_again_changes_nothing(registry):
    first, _ = publish(registry)
    placed = []
    assert publish(registry, place=placed.append) == (first, False)
    assert (placed, registry.revision()) == ([], 1)
    assert len(registry.table_versions("auto")) == 1


def test_publishing_the_same_bundle_again_activates_it_if_asked(registry):
    publish(registry, "a")
    publish(registry, "b")
    assert [model.ref for model in registry.models() if model.active] == ["cars@2"]
    model, is_new = publish(registry, "a")
    assert (model.ref, model.active, is_new) == ("cars@1", True, False)
    assert (registry.snapshot().active, registry.revision()) == ("cars@1", 3)


def test_a_model_published_without_activation_leaves_the_old_one_active(registry):
    publish(registry, "a", activate=False)
    assert registry.active() is None
    publish(registry, "b")
    publish(registry, "c", activate=False)
    assert (registry.active().ref, registry.model("cars").ref) == ("cars@2", "cars@3")


def test_versions_count_for_each_name_and_the_newest_comes_first(registry):
    for name, sha256 in [("cars", "a"), ("boats", "a"), ("cars", "b")]:
        publish(registry, sha256, name=name)
    assert [model.ref for model in registry.models()] == ["cars@2", "boats@1", "cars@1"]


def test_an_older_version_can_be_activated_again(registry):
    publish(registry, "a")
    publish(registry, "b")
    assert registry.activate("cars@1").active
    assert (registry.active().ref, registry.revision()) == ("cars@1", 3)
    registry.activate("cars@1")
    assert registry.revision() == 3, "nothing changed"
    assert registry.activate("cars").ref == "cars@2"


def test_nothing_is_left_behind_if_the_files_cannot_be_placed(registry):
    def fail(ref):
        raise OSError(28, "no space left", ref)

    with pytest.raises(OSError, match="no space left: 'cars@1'"):
        publish(registry, place=fail)
    assert (registry.models(), registry.active(), registry.revision()) == ([], None, 0)
    with pytest.raises(UnknownTableError):
        registry.table_versions("auto")
    assert publish(registry)[0].ref == "cars@1"


def test_reads_go_on_while_another_publishes(registry):
    seen = []

    def look(ref):
        seen.append((registry.revision(), registry.models(), registry.snapshot().active))

    publish(registry, place=look)
    assert seen == [(0, [], None)]


@pytest.mark.parametrize(
    ("ref", "said"),
    [
        ("car", "did you mean 'cars'"),
        ("Cars", "did you mean 'cars'"),
        ("cras@1", "did you mean 'cars'"),
        ("boot", "did you mean 'boats'"),
        ("cars\x00", "did you mean 'cars'"),
        ("cars@3", "known are cars@2, cars@1$"),
        ("cars@", "known are cars@2, cars@1$"),
        ("cars@01", "known are cars@2, cars@1$"),
        ("cars@" + "9" * 40, "known are cars@2, cars@1$"),
    ],
)
def test_an_unknown_model_is_answered_with_the_nearest_known_one(registry, ref, said):
    for name, sha256 in [("cars", "a"), ("boats", "a"), ("cars", "b")]:
        publish(registry, sha256, name=name)
    for ask in (registry.model, registry.activate):
        with pytest.raises(UnknownModelError, match=said):
            ask(ref)
    assert registry.revision() == 3


def test_an_unknown_model_in_an_empty_registry_says_how_to_publish(registry):
    with pytest.raises(UnknownModelError, match="none is published yet, use: python -m service publish"):
        registry.model("cars")


@pytest.mark.parametrize("name", ["", "a@b", "../cars", "a\\b", ".cars", "ca\x00rs", "ca\nrs"])
def test_a_model_name_that_could_not_be_asked_for_is_refused(registry, name):
    with pytest.raises(AskError, match="expected printable text"):
        publish(registry, name=name)


# --- tables ---------------------------------------------------------------------------------------------------------


def test_a_registered_table_reads_back_as_it_was_given(registry):
    put = registry.put_table("größen", [WEIGHT, CYLINDERS])
    assert (put.table, put.version, put.columns) == ("größen", 1, (WEIGHT, CYLINDERS))
    assert (put.origin, put.retired, put.created.tzinfo) == ("registered", False, UTC)
    assert registry.table_versions("größen") == [put]
    assert registry.snapshot().registered == {"größen": put}


def test_registering_the_same_columns_again_makes_no_version(registry):
    put = registry.put_table("mine", [WEIGHT])
    assert registry.put_table("mine", [WEIGHT]) == put
    assert registry.revision() == 1


def test_every_version_of_a_table_is_kept(registry):
    first = registry.put_table("mine", [WEIGHT])
    second = registry.put_table("mine", [WEIGHT, CYLINDERS])
    retired = registry.drop_table("mine")
    again = registry.put_table("mine", [WEIGHT])
    assert [first.version, second.version, retired.version, again.version] == [1, 2, 3, 4]
    assert (retired.retired, retired.columns, retired.origin) == (True, (), "registered")
    assert registry.table_versions("mine") == [again, retired, second, first]
    assert (registry.snapshot().registered, registry.revision()) == ({"mine": again}, 4)


def test_a_dropped_table_is_no_longer_served(registry):
    registry.put_table("mine", [WEIGHT])
    kept = registry.put_table("other", [CYLINDERS])
    registry.drop_table("mine")
    assert registry.snapshot().registered == {"other": kept}
    with pytest.raises(UnknownTableError, match="'mine' is not registered"):
        registry.drop_table("mine")


def test_a_bundle_adds_a_table_version_only_where_its_columns_differ(registry):
    publish(registry, "a")
    changed = Table("auto", (*AUTO.links, Link("mpg", "mpg")))
    publish(registry, "b", tables=(changed, MTCARS))
    publish(registry, "c", tables=(changed, MTCARS))
    assert [(v.version, v.origin) for v in registry.table_versions("auto")] == [(2, "cars@2"), (1, "cars@1")]
    assert [(v.version, v.origin) for v in registry.table_versions("mtcars")] == [(1, "cars@1")]
    assert registry.table_versions("auto")[0].columns == changed.links


def test_what_a_user_registered_outlives_a_bundle_with_the_same_table(registry):
    publish(registry, "a")
    mine = registry.put_table("auto", [WEIGHT])
    publish(registry, "b", tables=(Table("auto", (CYLINDERS,)),))
    assert registry.snapshot().registered == {"auto": mine}
    assert [v.origin for v in registry.table_versions("auto")] == ["cars@2", "registered", "cars@1"]


def test_an_unknown_table_is_answered_with_the_nearest_known_one(registry):
    with pytest.raises(UnknownTableError, match="no table is known yet"):
        registry.table_versions("auto")
    with pytest.raises(UnknownTableError, match="no table is registered"):
        registry.drop_table("auto")
    publish(registry)
    registry.put_table("mine", [WEIGHT])
    with pytest.raises(UnknownTableError, match="no table 'mtcar' in the registry; did you mean 'mtcars'"):
        registry.table_versions("mtcar")
    with pytest.raises(UnknownTableError, match="'mime' is not registered; did you mean 'mine'"):
        registry.drop_table("mime")
    for ask in (registry.table_versions, registry.drop_table):
        with pytest.raises(UnknownTableError):
            ask("auto\x00")


@pytest.mark.parametrize(
    ("table", "columns", "said"),
    [
        ("", [WEIGHT], "a table's name"),
        ("a\x00", [WEIGHT], "a table's name"),
        ("t", [Link("w\ud800", "weight")], "without NUL"),
        ("t", [Link("w", "weight", missing=("\x00",))], "without NUL"),
        ("t", [WEIGHT, WEIGHT], "table 't', column 'wt': given twice"),
        ("t", [Link("w", "weight", 0.0)], "the scale not 0"),
        ("t", [Link("w", "weight", float("nan"))], "finite"),
        ("t", [Link("w", "weight", 1.0, float("inf"))], "finite"),
    ],
)
def test_columns_that_could_not_be_stored_are_refused(registry, table, columns, said):
    with pytest.raises(AskError, match=said):
        registry.put_table(table, columns)
    with pytest.raises(AskError, match=said):
        publish(registry, tables=[Table(table, tuple(columns))])
    assert registry.revision() == 0


# --- several processes ----------------------------------------------------------------------------------------------


def test_two_processes_that_publish_at_once_get_versions_of_their_own(registry, url):
    said = answers([start(PUBLISHING, url, "a"), start(PUBLISHING, url, "b")])
    assert sorted(said) == [["cars@1", True], ["cars@2", True]]
    assert registry.revision() == 2


def test_two_processes_that_publish_the_same_bundle_get_one_version(registry, url):
    said = answers([start(PUBLISHING, url, "a"), start(PUBLISHING, url, "a")])
    assert sorted(said) == [["cars@1", False], ["cars@1", True]]
    assert registry.revision() == 1


def test_four_processes_can_open_a_fresh_registry_at_once(url):
    assert answers([start(OPENING, url) for _ in range(4)]) == [0, 0, 0, 0]


def test_a_change_by_one_process_is_seen_by_another(registry, url):
    said = answers([start(WATCHING, url)], until=lambda: publish(registry))
    assert said == [[1, "cars@1"]]


def test_a_snapshot_is_of_one_moment(registry, url):
    registry.put_table("mine", [Link("w", "weight", 1.0, 1.0)])
    done = threading.Event()

    def change():
        with Registry.open(url) as other:
            for revision in range(2, 60):
                other.put_table("mine", [Link("w", "weight", 1.0, float(revision))])
        done.set()

    writer = threading.Thread(target=change)
    writer.start()
    while not done.is_set() and writer.is_alive():
        snapshot = registry.snapshot()
        assert snapshot.registered["mine"].columns[0].offset == snapshot.revision
    writer.join()
    assert registry.revision() == 59


def test_a_writer_that_waits_too_long_says_so(url):
    with Registry.open(url) as registry, Registry.open(url, wait=0.2) as other:
        said = []

        def disturb(ref):
            began = time.monotonic()
            with pytest.raises(RegistryError, match="lock") as caught:
                other.put_table("mine", [WEIGHT])
            said.append((str(caught.value), time.monotonic() - began < 5))

        publish(registry, place=disturb)
        assert said[0][1]
        assert "; check " in said[0][0]
        assert other.put_table("mine", [WEIGHT]).version == 1


# --- opening and migrating ------------------------------------------------------------------------------------------


def test_alembic_is_not_imported_when_the_registry_is_up_to_date(registry, url):
    publish(registry)
    answer = subprocess.run([sys.executable, "-c", OPENING_AGAIN, url], capture_output=True, check=True, cwd=ROOT)
    assert json.loads(answer.stdout) == [1, []]


def test_the_head_this_program_names_is_the_newest_script():
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


def test_the_migrations_make_what_the_rows_declare(registry, url):
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext

    database = connect(url, 1.0)
    with database.reader.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []
    database.close()


def test_a_registry_of_a_newer_program_is_refused(url):
    Registry.open(url).close()
    run(url, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(RegistryError, match=r"revision '9999', which this program does not know.*newer Tabglot"):
        Registry.open(url)


def test_a_database_with_other_tables_in_the_way_is_refused_and_left_as_it_was(url):
    if url.startswith("sqlite"):
        Path(url.removeprefix("sqlite:///")).parent.mkdir()
    run(url, "CREATE TABLE state (id INTEGER)")
    for _ in range(2):  # were the first tables made and kept, the second complaint would be of those
        with pytest.raises(RegistryError, match=r"state.* already exists"):
            Registry.open(url)


def test_a_registry_without_its_state_row_says_so(url):
    Registry.open(url).close()
    run(url, "DELETE FROM state")
    with pytest.raises(RegistryError, match="lost its state row"):
        Registry.open(url)


# --- what cannot be opened ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "",
        "registry.db",
        "postgresql//ann:s3cret@host/db",
        "postgresql://ann:s3cret@host:port/db",
        "mysql://ann:s3cret@host/db",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite://var/registry.db",
        "sqlite:///var/registry.db?mode=s3cret",
    ],
)
def test_a_bad_url_is_refused_with_what_is_accepted(url):
    with pytest.raises(RegistryError, match="expected sqlite:///PATH") as caught:
        Registry.open(url)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("end", ["", "?connect_timeout=3", "?password=s3cret", "?password=s3cret&no_such_option=1"])
def test_an_unreachable_postgres_is_told_without_the_password(end):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        with pytest.raises(RegistryError, match=rf"^registry cars at 127.0.0.1:{port}: .*; check the URL") as caught:
            Registry.open(f"postgresql://ann:s3cret@127.0.0.1:{port}/cars{end}")
    assert "s3cret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_database_that_is_not_there_is_told_without_the_password(postgres):
    with pytest.raises(RegistryError, match='"nowhere" does not exist') as caught:
        Registry.open(postgres.url("nowhere", user="postgres:s3cret"))
    assert "s3cret" not in str(caught.value)


def test_a_postgres_user_without_rights_is_told(postgres, postgres_url):
    Registry.open(postgres_url).close()
    postgres.run("CREATE ROLE reader LOGIN")
    with pytest.raises(RegistryError, match="permission denied"):
        Registry.open(postgres_url.replace("postgres@", "reader@"))


def test_a_postgres_that_was_restarted_is_reached_again(postgres, postgres_url):
    with Registry.open(postgres_url) as registry:
        postgres.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname LIKE 'registry_%'")
        assert registry.revision() == 0


def test_a_postgres_url_may_be_written_in_its_other_forms(postgres_url):
    for scheme in ("postgres", "postgresql+psycopg", "postgresql+psycopg2"):
        with Registry.open(postgres_url.replace("postgresql", scheme, 1)) as registry:
            assert registry.revision() == 0


def test_a_path_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(RegistryError, match=r"the folder .*file/deeper cannot be made: Not a directory"):
        Registry.open(f"sqlite:///{tmp_path}/file/deeper/registry.db")
    with pytest.raises(RegistryError, match="unable to open database file; check that the file"):
        Registry.open(f"sqlite:///{tmp_path}")


def test_a_file_that_is_no_database_is_told(tmp_path):
    (tmp_path / "registry.db").write_text("a letter to my aunt, longer than a header would be" * 20)
    with pytest.raises(RegistryError, match="file is not a database"):
        Registry.open(f"sqlite:///{tmp_path}/registry.db")


@pytest.mark.parametrize("mode", [0o777, 0o555])
def test_a_registry_that_may_only_be_read_is_told(mode):
    folder = Path(tempfile.mkdtemp())  # not under pytest's folder, which others may not enter
    nobody = pwd.getpwnam("nobody").pw_uid
    try:
        program = [sys.executable, "-c", WRITING_WITHOUT_RIGHTS, str(folder), str(mode), str(nobody)]
        answer = subprocess.run(program, capture_output=True, text=True, check=False, cwd=ROOT)
        assert answer.returncode == 1
        assert re.match(rf"registry {folder}/registry.db: .*(readonly|unable to open).*; check that", answer.stderr)
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_sqlite_connections_are_safe_and_do_not_block_readers(tmp_path):
    Registry.open(f"sqlite:///{tmp_path}/registry.db").close()
    database = connect(f"sqlite:///{tmp_path}/registry.db", 10.0)
    with database.writer.connect() as connection:
        pragmas = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        found = {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in pragmas}
        assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 10_000}
        other = sqlite3.connect(tmp_path / "registry.db", timeout=0)
        with pytest.raises(sqlite3.OperationalError, match="locked"):  # the lock is taken before the first write
            other.execute("BEGIN IMMEDIATE")
        other.close()
    database.close()
