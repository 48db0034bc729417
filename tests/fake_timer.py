"""A timer that needs no GPU, for the tests of what is measured with one."""

from helpers.nvml import Telemetry
from helpers.timing import Burst, Turn

BUSY = Telemetry(690.0, 60.0, 1455.0, ("sw_power_cap",))


class FakeTimer:
    """Launches for real, and answers with milliseconds that the test chooses.

    ms: by launch, a mapping or a function. calls: what was asked for, (launch, ...), in its order.
    said: about other processes.
    """

    on_gpu, said = False, ""

    def disturbance(self):
        return self.said

    def __init__(self, ms, queue_ms=0.1):
        self.ms = ms if callable(ms) else ms.__getitem__
        self.queue_ms, self.calls = queue_ms, []

    def burst(self, launch, launches, rest_s, spin_ms):
        for _ in range(launches):
            launch()
        self.calls.append((launch, launches, rest_s, spin_ms))
        return Burst(self.ms(launch), 1700.0, self.queue_ms, BUSY)

    def turn(self, launch, seconds, drop_s, chunk_launches):
        launch()
        self.calls.append((launch, seconds, drop_s, chunk_launches))
        ms = self.ms(launch)
        return Turn((ms, ms * 1.1, ms * 1.2), (1400.0, 1390.0, 1380.0), (BUSY,), seconds)

    def captured(self, launches):
        def graph():
            for launch in launches:
                launch()

        return graph
