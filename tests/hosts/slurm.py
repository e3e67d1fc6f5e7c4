"""Slurm on a rig of hosts: slurmctld on the first, a slurmd on each of the others."""

import os
import shutil

from rig import skip, until

CONFIGURATION = """\
ClusterName=rig
SlurmctldHost={controller}({address})
SlurmUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SlurmdTimeout=20
InactiveLimit=0
KillWait=5
UnkillableStepTimeout=20
MessageTimeout=10
TCPTimeout=2
SchedulerParameters=sched_interval=2,bf_interval=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
JobRequeue=1
"""


class Slurm:
    def __init__(self, world):
        for tool in ("slurmctld", "slurmd", "sbatch", "squeue", "scancel", "sinfo"):
            if shutil.which(tool) is None:
                skip(f"{tool} is not installed (packages slurmctld, slurmd, slurm-client)")
        self.world, self.controller, self.nodes = world, world.hosts[0], world.hosts[1:]
        self.folder = os.path.join(world.folder, "slurm")
        os.makedirs(f"{self.folder}/state")
        text = CONFIGURATION.format(
            controller=self.controller.name, address=self.controller.address, folder=self.folder
        )
        for node in self.nodes:
            text += f"NodeName={node.name} NodeAddr={node.address} CPUs=2 RealMemory=1000 State=UNKNOWN\n"
        text += "PartitionName=cpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO\n"
        with open(f"{self.folder}/slurm.conf", "w") as file:
            file.write(text)
        with open(f"{self.folder}/cgroup.conf", "w") as file:
            file.write("CgroupPlugin=cgroup/v1\nCgroupAutomount=yes\n")
        world.env["SLURM_CONF"] = f"{self.folder}/slurm.conf"
        # slurmctld -D writes to its log file and ends with its host.
        self.controller.start("slurmctld", "-D")
        for node in self.nodes:
            self.begin_node(node)
        until(lambda: self.states() == {node.name: "idle" for node in self.nodes}, 60, "the nodes of Slurm are idle")

    def begin_node(self, node):
        """Starts slurmd, which wants to see cgroups, and uses none."""
        os.makedirs(f"{self.folder}/spool.{node.name}", exist_ok=True)
        node.run("mount", "-t", "tmpfs", "none", "/sys/fs/cgroup")
        node.start("slurmd", "-D", "-N", node.name)

    def states(self):
        lines = self.controller.run("sinfo", "-h", "-N", "-o", "%N %t", check=False).stdout.splitlines()
        return dict(line.split() for line in lines)

    def queue(self):
        """Returns [(number, state, node)] of all jobs."""
        done = self.controller.run("squeue", "-h", "-o", "%A %T %N", check=False)
        return [tuple((line + " ").split(" ")[:3]) for line in done.stdout.splitlines()]
