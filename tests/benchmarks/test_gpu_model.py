"""What the report on the model of GPUs says of measured and predicted times."""

from __future__ import annotations

from benchmarks.gpu_model import Judged, row
from spacedsl.codegen.cuda.prediction import Prediction


def judged(measured_ns: float, predicted_ns: float) -> Judged:
    return Judged("0" * 8, measured_ns, Prediction(predicted_ns, ()))


def test_a_model_that_is_off_by_a_factor_ranks_all_the_same() -> None:
    assert row([judged(n, 2.0 * n) for n in (3.0, 1.0, 2.0)]) == ("3", "1.00", "2.00", "0.00", "1.00", "1.00")


def test_what_is_predicted_to_be_fastest_may_be_slow() -> None:
    """And not the fastest of ten, where there are more."""
    right = [judged(n, n) for n in range(2, 30)]
    assert row([*right, judged(8.0, 1.0)])[4:] == ("4.00", "1.00")
    assert row([judged(1.0, 99.0), *right])[4:] == ("2.00", "2.00")
