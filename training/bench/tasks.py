"""Many tasks, some of whose figures are known from a run before."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from model.progress import Progress
from training.figures import ComparisonError, Ledger
from training.parallel import n_cores, work_alone

Task = tuple[str | int, ...]
Work = Callable[[Task], list[float]]


def choose_methods(methods: Sequence[str], only: Sequence[str]) -> list[str]:
    """Those that were asked for; all of them if none was."""
    unknown = [method for method in only if method not in methods]
    if unknown:
        raise ComparisonError(f"no method {', '.join(unknown)} here; there are {', '.join(methods)}")
    return [method for method in methods if not only or method in only]


def leave_out(methods: Sequence[str], missing: Mapping[str, str]) -> list[str]:
    """Those that can run here; of the others it is said what they need."""
    for method in methods:
        if method in missing:
            print(f"{method} is left out: it needs {missing[method]}")
    return [method for method in methods if method not in missing]


def run_tasks(tasks: Sequence[Task], work: Work, ledger: Ledger, *, quick: bool, what: str) -> dict[Task, list[float]]:
    """The figures of every task; ``quick`` tasks stay in this process: another takes longer to start."""
    progress = Progress()
    progress.start(what)
    found: dict[Task, list[float]] = {task: ledger.known[str(task)] for task in tasks if str(task) in ledger.known}
    ahead = [task for task in tasks if task not in found]
    for task, figures in _run_here(ahead, work) if quick else _run_beside(ahead, work):
        ledger.keep(str(task), figures)
        found[task] = figures
        progress.update(len(found) / len(tasks), ", ".join(map(str, task)))
    progress.close()
    return found


def _run_here(tasks: Sequence[Task], work: Work) -> Iterator[tuple[Task, list[float]]]:
    yield from ((task, work(task)) for task in tasks)


def _run_beside(tasks: Sequence[Task], work: Work) -> Iterator[tuple[Task, list[float]]]:
    """In as many processes as there are cores, each as it ends."""
    with ProcessPoolExecutor(n_cores(), get_context("spawn"), initializer=work_alone) as pool:
        futures = {pool.submit(work, task): task for task in tasks}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(cancel_futures=True)
