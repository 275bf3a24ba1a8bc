"""Virtual machines under QEMU's software emulation, for tests: boots them, runs commands inside, cuts their cable.

    with vm.Lab(image) as lab:
        one, two = lab.network(2)                    # booted, with rxe0 on 10.0.0.1 and 10.0.0.2
        server = one.start("ib_read_lat -x 1")
        print(two.run("ib_read_lat -x 1 10.0.0.1"))  # raises unless its exit status is 0

Nothing here listens on the host: consoles, agents, QEMU's monitor and the cable between two machines are pairs of
connected sockets. Every wait has a deadline. The machines die with the process that started them.
"""

import json
import pathlib
import re
import secrets
import selectors
import shlex
import socket
import subprocess
import tempfile
import time

import image as images

SLOTS = 5         # jobs at a time in one machine; the first slot is kept for ending the others
ETHERNET_MTU = 4200  # of the network; gives a path MTU of 4096
# The options from mitigations=off on save time. no_timer_check: on a busy host the timer may come too late
# for the kernel's check, and the kernel would panic.
KERNEL_OPTIONS = "quiet panic=-1 mitigations=off nokaslr cryptomgr.notests no_timer_check"
# Has those features of the host that decide about the bits of floating-point results (FMA: glibc's functions
# test for it). Lacks features that make an emulated processor slow: string instructions for copying (which
# copy a byte at a time), protection of user pages from the kernel, a fifth level of page tables.
PROCESSOR = "max,erms=off,fsrm=off,smap=off,smep=off,la57=off"
BOOT_DEADLINE_S = 180  # it takes 4 s when nothing else runs; but tests run beside compilers
RUN_DEADLINE_S = 60
CONTROL_DEADLINE_S = 30
SENT_PACKETS = "/sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts"
SHOWN_CONSOLE_LINES = 30


class Failure(Exception):
    """Something in a virtual machine did not go as it must."""


class Overdue(Failure):
    """It did not happen before its deadline."""


class MachineDied(Failure):
    """The machine ended while something was to happen in it."""


class Stream:
    """Our end of a connection to QEMU. Passes on what arrives."""

    def __init__(self, lab, on_data):
        self.ours, self.theirs = socket.socketpair()
        self.ours.setblocking(False)
        self._lab = lab
        self._on_data = on_data
        lab.selector.register(self.ours, selectors.EVENT_READ, self.drain)

    def drain(self):
        """Takes all that has arrived."""
        while self.ours.fileno() >= 0:
            try:
                data = self.ours.recv(1 << 16)
            except BlockingIOError:
                return
            except ConnectionError:
                data = b""
            if not data:
                self.close()
                return
            self._on_data(data)

    def send_line(self, line):
        """Sends a line, short enough for the socket's buffer. Returns False if the other end is closed."""
        try:
            self.ours.sendall(line.encode() + b"\n")
        except OSError:
            return False
        return True

    def close(self):
        if self.ours.fileno() >= 0:
            self._lab.selector.unregister(self.ours)
            self.ours.close()


class Lines:
    """Splits data into lines, and calls back with each whole line."""

    def __init__(self, on_line):
        self._on_line = on_line
        self._rest = b""

    def __call__(self, data):
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._on_line(line.decode(errors="replace").rstrip("\r"))


class Job:
    """One command in a machine."""

    def __init__(self, slot, command):
        self._slot = slot
        self.machine = slot.machine
        self.command = command
        self.output = b""
        self.process_id = None
        self.status = None

    def text(self):
        return self.output.decode(errors="replace")

    def wait(self, deadline_s):
        """Returns the exit status. Kills a job that is overdue, and its machine if the job cannot be killed."""
        try:
            self.machine.lab.until(lambda: self.status is not None, deadline_s, f"end of {self}", self.machine)
        except Overdue as overdue:
            self.kill()
            raise Overdue(f"{overdue}\n{self.text()}") from None
        return self.status

    def wait_for(self, pattern, deadline_s):
        """Waits until the output matches a regular expression, and returns the match."""
        found = []

        def search():
            found[:] = [re.search(pattern, self.text())]
            return found[0] or self.status is not None

        self.machine.lab.until(search, deadline_s, f"'{pattern}' from {self}", self.machine)
        if not found[0]:
            raise Failure(f"{self} ended with status {self.status} and without '{pattern}':\n{self.text()}")
        return found[0]

    def signal(self, name):
        """To the job and all that it has started."""
        self.machine.lab.until(lambda: self.process_id is not None, CONTROL_DEADLINE_S, f"start of {self}", self.machine)
        self.machine.run(f"kill -{name} -{self.process_id}", shown=False)

    def kill(self):
        """Kills the job and all that it has started. Returns when they are gone."""
        if self.status is not None or not self.machine.alive():
            return
        lab, machine = self.machine.lab, self.machine
        try:
            lab.until(lambda: self.process_id is not None, CONTROL_DEADLINE_S, f"start of {self}", machine)
            machine.reserved_slot().start(f"kill -KILL -{self.process_id}")
            lab.until(lambda: self.status is not None, CONTROL_DEADLINE_S, f"end of {self} after its kill", machine)
        except Overdue as overdue:
            machine.kill()
            raise Overdue(f"{overdue}; {machine.name} was killed, too") from None

    def __str__(self):
        return f"'{self.command}' on {self.machine.name}"


class Slot:
    """An agent in the machine, which runs one job at a time."""

    def __init__(self, machine):
        self.machine = machine
        self.ready = False
        self.job = None
        self._end = b""
        self._exited = None
        self.control = Stream(machine.lab, Lines(self._on_control))
        self.output = Stream(machine.lab, self._on_output)
        self._show = None

    def start(self, command, shown=True):
        if "\n" in command:
            raise ValueError(f"a command is one line: {command!r}")
        self.job = Job(self, command)
        # Marks the end of what the job prints. The status comes over another port and may overtake the
        # output.
        end = secrets.token_hex(16)
        self._end, self._exited = end.encode(), None
        self._show = Lines(self.machine.show if shown else lambda line: None)
        if shown:
            self.machine.show(f"$ {command}")
        if not self.control.send_line(f"{end} {command}"):
            raise MachineDied(f"{self.machine.name} died before '{command}'")
        return self.job

    def free(self):
        return self.job is None or self.job.status is not None

    def _on_control(self, line):
        word, _, number = line.partition(" ")
        if word == "ready":
            self.ready = True
        elif word == "started":
            self.job.process_id = int(number)
        elif word == "exited":
            self._exited = int(number)
            self._end_job()

    def _on_output(self, data):
        if self.job is not None and self.job.status is None:
            self.job.output += data
            self._show(data)
            self._end_job()

    def _end_job(self):
        """Ends the job if both its status and all of its output have come."""
        output, end, _ = self.job.output.rpartition(self._end) if self._exited is not None else (b"", b"", b"")
        if end:
            self.job.output = output
            self.job.status = self._exited


class Machine:
    """A virtual machine. Made by Lab.machine()."""

    def __init__(self, lab, number, cable, memory_mib):
        self.lab = lab
        self.number = number
        self.name = f"node{number}"
        self.console = []
        self._replies = []
        self._greeted = False
        self._console = Stream(lab, Lines(self.console.append))
        self._monitor = Stream(lab, Lines(self._on_monitor))
        self._slots = [Slot(self) for _ in range(SLOTS)]
        self._begin = time.monotonic()
        self._process = self._start_qemu(cable, memory_mib)

    def _start_qemu(self, cable, memory_mib):
        # setpriv: the machine ends with the thread that has started it, however that one ends.
        command = ["setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64",
                   "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", PROCESSOR, "-smp", "2", "-m", f"{memory_mib}M",
                   "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
                   "-kernel", self.lab.image.kernel.image, "-initrd", self.lab.initramfs,
                   "-append", f"console=ttyS0 {KERNEL_OPTIONS} SLOTS={SLOTS}",
                   "-device", "virtio-serial-pci"]
        passed = []

        def connect(name, stream):
            passed.append(stream.theirs)
            return ["-chardev", f"socket,id={name},fd={stream.theirs.fileno()}"]

        command += connect("console", self._console) + ["-serial", "chardev:console"]
        command += connect("monitor", self._monitor) + ["-mon", "chardev=monitor,mode=control"]
        for number, slot in enumerate(self._slots):
            for kind, stream in (("control", slot.control), ("output", slot.output)):
                name = f"{kind}.{number}"
                command += connect(name, stream) + ["-device", f"virtserialport,chardev={name},name={name}"]
        if cable is None:
            command += ["-netdev", "user,id=net,restrict=on,ipv6=off"]  # a link to nowhere
        else:
            passed.append(cable)
            command += ["-netdev", f"socket,id=net,fd={cable.fileno()}"]
        command += ["-device", f"virtio-net-pci,netdev=net,mac=52:54:00:00:00:{self.number:02x},romfile="]
        process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,
                                   pass_fds=[end.fileno() for end in passed])
        for end in passed:
            end.close()
        return process

    def wait_booted(self):
        self.lab.until(lambda: all(slot.ready for slot in self._slots), BOOT_DEADLINE_S, f"boot of {self.name}", self)
        self.show(f"booted in {time.monotonic() - self._begin:.1f} s")

    def show(self, line):
        print(f"{self.name}| {line}", flush=True)

    # ---- commands

    def start(self, command, shown=True):
        """Starts a shell command, or a list of words, and returns the Job. Its output is shown as it comes."""
        command = command if isinstance(command, str) else shlex.join(str(word) for word in command)
        slot = next((slot for slot in self._slots[1:] if slot.free()), None)
        if slot is None:
            raise Failure(f"{self.name} runs {SLOTS - 1} jobs already")
        return slot.start(command, shown)

    def run(self, command, deadline_s=RUN_DEADLINE_S, shown=True):
        """Runs a command that must succeed; returns its output."""
        job = self.start(command, shown)
        status = job.wait(deadline_s)
        if status != 0:
            raise Failure(f"{job} ended with status {status}:\n{job.text()}")
        return job.text()

    def read_file(self, path, deadline_s=RUN_DEADLINE_S):
        """The bytes of a file in the machine."""
        job = self.start(["cat", path], shown=False)
        if job.wait(deadline_s) != 0:
            raise Failure(f"{self.name}: {job.text()}")
        return job.output

    def end_jobs(self):
        """Kills all jobs that still run."""
        for slot in self._slots[1:]:
            if not slot.free():
                slot.job.kill()

    def reserved_slot(self):
        self.lab.until(self._slots[0].free, CONTROL_DEADLINE_S, f"reserved slot of {self.name}", self)
        return self._slots[0]

    # ---- the network

    def wait_listening(self, port, deadline_s=RUN_DEADLINE_S):
        """Waits until a process in the machine listens on this TCP port."""
        self._wait_for(f"netstat -ltn | grep -q ':{port} '", deadline_s)

    def wait_listening_rdma(self, deadline_s=RUN_DEADLINE_S):
        """Waits until a process in the machine listens through librdmacm."""
        self._wait_for("rdma resource show cm_id | grep -q 'state LISTEN'", deadline_s)

    def wait_device(self, state, deadline_s=RUN_DEADLINE_S):
        """Waits until rxe0 is in this state: ACTIVE or DOWN."""
        self._wait_for(f"rdma link | grep -q 'rxe0/1 state {state} '", deadline_s)

    def wait_sent_packets(self, count, unless_ended=None, deadline_s=RUN_DEADLINE_S):
        """Waits until rxe0 has sent so many packets, or until the job `unless_ended` has ended."""
        sent = f"test $(cat {SENT_PACKETS}) -ge {count}"
        if unless_ended is not None:
            self.lab.until(lambda: unless_ended.process_id is not None, CONTROL_DEADLINE_S, f"start of {unless_ended}",
                           self)
            sent = f"{{ {sent} || ! kill -0 {unless_ended.process_id} 2>/dev/null; }}"
        self._wait_for(sent, deadline_s)

    def sent_packets(self):
        """How many packets rxe0 has sent since it was created."""
        return int(self.run(["cat", SENT_PACKETS], shown=False))

    def _wait_for(self, condition, deadline_s):
        self.run(f"until {condition}; do sleep 0.1; done", deadline_s, shown=False)

    def set_up_rxe(self):
        """Gives eth0 its address and puts soft-RoCE on it."""
        self.run(f"ip link set eth0 mtu {ETHERNET_MTU} up && ip address add {self.address()}/24 dev eth0")
        self.run("modprobe -a crc32_generic rdma_rxe ib_uverbs rdma_ucm && rdma link add rxe0 type rxe netdev eth0")

    def address(self):
        return f"10.0.0.{self.number}"

    def gid_index(self):
        """The index of rxe0's RoCEv2 GID that is made from the IPv4 address."""
        gid = f"0000:0000:0000:0000:0000:ffff:0a00:{self.number:04x}"
        found = self.run(f"grep -lx {gid} /sys/class/infiniband/rxe0/ports/1/gids/*", shown=False)
        return int(pathlib.PurePath(found.strip()).name)

    def set_link(self, up):
        """Plugs the network cable in, or pulls it out."""
        self.monitor("set_link", name="net", up=up)

    # ---- the machine

    def alive(self):
        return self._process.poll() is None

    def kill(self):
        """Ends the machine as a power failure would."""
        self._process.kill()
        self._process.wait()
        for stream in (self._console, self._monitor, *(s for slot in self._slots for s in (slot.output, slot.control))):
            stream.drain()
            stream.close()

    def monitor(self, command, **arguments):
        """Sends a command to QEMU itself (QMP)."""

        def order(name, values):
            self._replies.clear()
            self._monitor.send_line(json.dumps({"execute": name, "arguments": values}))
            self.lab.until(lambda: self._replies, CONTROL_DEADLINE_S, f"QEMU's answer to {name}", self)
            if "error" in self._replies[0]:
                raise Failure(f"{self.name}: QEMU refuses {name}: {self._replies[0]['error']['desc']}")

        if not self._greeted:
            self._greeted = True
            order("qmp_capabilities", {})
        order(command, arguments)

    def _on_monitor(self, line):
        reply = json.loads(line)
        if "return" in reply or "error" in reply:
            self._replies.append(reply)


class Lab:
    """Machines that live as long as a with statement, and the loop that reads what comes from them."""

    def __init__(self, image, programs=None, files=None, memory_mib=512):
        """programs and files: {path in the machines: file here}; programs come with the objects they load."""
        self.image = image
        self.selector = selectors.DefaultSelector()
        self.machines = []
        self._memory_mib = memory_mib
        self.initramfs = image.base
        self._folder = None
        if programs or files:
            self._folder = tempfile.TemporaryDirectory(prefix=images.LAB_PREFIX, dir=image.cache)
            self.initramfs = pathlib.Path(self._folder.name) / "initramfs.cpio"
            image.extend(programs or {}, files or {}, self.initramfs)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Kills all machines."""
        for machine in self.machines:
            machine.kill()
        self.selector.close()
        if self._folder:
            self._folder.cleanup()

    def machine(self, cable=None):
        """Starts a machine. `cable` is one of a pair of connected sockets; None: the cable leads nowhere."""
        self.machines.append(Machine(self, len(self.machines) + 1, cable, self._memory_mib))
        return self.machines[-1]

    def network(self, size):
        """Returns one booted machine with soft-RoCE, or two that a cable joins."""
        cables = {1: lambda: [None], 2: socket.socketpair}[size]()
        machines = [self.machine(cable) for cable in cables]
        for machine in machines:
            machine.wait_booted()
        for machine in machines:
            machine.set_up_rxe()
        return machines

    def until(self, condition, deadline_s, what, machine):
        """Reads until the condition holds. Raises Overdue at the deadline, and MachineDied if the machine ends."""
        deadline = time.monotonic() + deadline_s
        while not condition():
            if not machine.alive():
                self._read(0)
                if condition():
                    return
                raise MachineDied(f"{machine.name} died before {what}{self._last_words(machine)}")
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                raise Overdue(f"{what}: not within {deadline_s} s{self._last_words(machine)}")
            self._read(min(remaining_s, 0.5))

    def _read(self, timeout_s):
        for key, _ in self.selector.select(timeout_s):
            key.data()

    @staticmethod
    def _last_words(machine):
        return "".join(f"\n  console: {line}" for line in machine.console[-SHOWN_CONSOLE_LINES:])
