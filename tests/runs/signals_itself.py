"""A callback that sends a signal at a moment of the run; the environment says to whom, which, in which call of a hook."""

import os
import signal

import pytorch_lightning as pl

SIGNAL = "SIGNAL_IN_RUN"  # self SIGTERM on_train_batch_start 3
WHOM = {"self": os.getpid, "parent": os.getppid, "group": lambda: -os.getpgid(0)}
HOOKS = ("setup", "on_train_batch_start", "on_train_epoch_end", "on_fit_end", "on_test_start", "on_test_batch_start")


class SignalsItself(pl.Callback):
    def __init__(self):
        whom, name, self.hook, count = os.environ.get(SIGNAL, "self SIGTERM never 0").split()
        self.whom, self.signal, self.left = WHOM[whom], signal.Signals[name], int(count)

    def called(self, trainer, hook):
        if hook == self.hook and trainer.is_global_zero:
            self.left -= 1
            if self.left == 0:
                os.kill(self.whom(), self.signal)


for name in HOOKS:
    setattr(SignalsItself, name, lambda self, trainer, *_, hook=name, **__: self.called(trainer, hook))
