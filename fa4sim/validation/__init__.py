"""Simulated times beside published ones: how close to the truth, and by what right.

>>> from fa4sim.validation import validated_rows
>>> [row.name for row in validated_rows() if row.fitted]
['full 4k', 'full 16k', 'causal 4k']

:func:`run_validation` simulates them all and compares; :func:`write_page` writes what came out
into ``docs/validation/b200.md``. :func:`run_inference` and :func:`write_inference_page` do the same
for FP8, decode steps and split keys.
"""

from fa4sim.validation.errors import Errors, errors_of, relative_error
from fa4sim.validation.inference import Inference, run_inference
from fa4sim.validation.inference_page import inference_page, write_inference_page
from fa4sim.validation.markdown import repository
from fa4sim.validation.page import page, write_page
from fa4sim.validation.pages import Pages, run_pages
from fa4sim.validation.pages_page import pages_section, write_pages_section
from fa4sim.validation.published import Group, Row, other_shapes, validated_rows
from fa4sim.validation.validation import Line, Validation, run_validation

__all__ = [
    "Errors",
    "Group",
    "Inference",
    "Line",
    "Pages",
    "Row",
    "Validation",
    "errors_of",
    "inference_page",
    "other_shapes",
    "page",
    "pages_section",
    "relative_error",
    "repository",
    "run_inference",
    "run_pages",
    "run_validation",
    "validated_rows",
    "write_inference_page",
    "write_page",
    "write_pages_section",
]
