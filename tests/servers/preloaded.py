"""What each forked process would import again, imported by the one that they are forked from.

Nothing of it is ever garbage: no process has to look through it.
"""

import gc
import importlib

from tollhouse.questions.synonyms import is_verb

NAMES = (
    "httpcore2",
    "tollhouse.cli",
    "tollhouse.cli.keys",
    "tollhouse.cli.serve",
    "tollhouse.services.defense.service",
    "tollhouse.services.infra.service",
    "tollhouse.services.mattress.service",
    "tollhouse.services.studio.service",
    "tests.catalogue.catalogue_process",
    "tests.payments.crashes.paid_app",
    "tests.payments.deposits.crediting_client",
    "tests.payments.ledger.crash_client",
    "tests.payments.settlement.settling_client",
    "tests.payments.x402.crash_client",
    "tests.payments.x402.full_disk_client",
    "tests.services.defense.alerts.dying_monitor",
    "tests.storage.index_process",
    "tests.webhooks.delivering_client",
)

gc.disable()
for name in NAMES:
    importlib.import_module(name)
# Reads the dictionary, which stays in memory.
is_verb("")
gc.freeze()
gc.enable()
