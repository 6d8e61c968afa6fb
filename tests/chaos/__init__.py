"""Real processes under random faults: ``python -m tests.chaos --minutes 5 --seed 1``.

    customers (threads)  ──► proxy ──► wf server ──► proxy ──► store   (Valkey, its append-only file synced always)
    somebody who answers ──┘               └──────► proxy ──► broker  (Valkey, nothing kept)
                                        wf worker (several) ──┘ both

Each customer starts one run after another under an idempotency key, repeats what was not answered, waits for the end
and compares it with what the engine in memory says of the same workflow. Meanwhile disturbances are drawn from the
seed.

    module           holds
    ---------------  ------------------------------------------------------------------------------------------
    shapes/          what is run: each shape makes workflows, an input, and the expected end
    disturbances/    what happens to it: each is a function of the installation and a random source
    profiles.py      how much of what: add a profile for another mixture
    installation.py  the processes, and how they are killed, stopped and started again
    ledger.py        what was promised, what was found, what is wrong
    customers.py     those who start, answer and judge
    harness.py       the order: disturb, calm down, settle, wait for the retention, count

What is counted: ``wrong`` is a run whose output, outcome, status or trace is another one than in memory, a key that led
to two runs, or a refusal that nothing explains. ``lost`` is a run that was acknowledged and has not ended within the
time to settle, or is gone. ``keys_left`` are keys of runs that outlive the retention.
"""
