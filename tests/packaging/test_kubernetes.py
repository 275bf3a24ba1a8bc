#!/usr/bin/env python3
"""The manifests: what they start is started here as processes, with the environment that Kubernetes would give them. No
cluster is at hand that could say more."""

import os
import pathlib
import re
import socket
import subprocess
import tempfile
import time
import unittest

import program
import yaml

MANIFESTS = program.PACKAGING / "kubernetes"


# The fields of Kubernetes, JobSet and MPIJob that are used here, as their references have them: an API server refuses, or
# silently ignores, any other one. A list stands for any number of such elements.
CONTAINER = {
    "name": str, "image": str, "command": [str], "args": [str],
    "env": [{"name": str, "value": str, "valueFrom": {"fieldRef": {"fieldPath": str}}}],
    "resources": {"requests": {"cpu": str, "memory": str}, "limits": {"rdma/hca_shared_devices_a": str}},
    "securityContext": {"runAsNonRoot": bool, "runAsUser": int, "allowPrivilegeEscalation": bool,
                        "capabilities": {"drop": [str], "add": [str]}, "seccompProfile": {"type": str}},
    "volumeMounts": [{"name": str, "mountPath": str, "readOnly": bool}],
    "readinessProbe": {"tcpSocket": {"port": int}, "periodSeconds": int},
}
POD = {
    "restartPolicy": str, "containers": [CONTAINER],
    "securityContext": {"runAsNonRoot": bool, "runAsUser": int, "fsGroup": int, "seccompProfile": {"type": str}},
    "volumes": [{"name": str, "secret": {"secretName": str, "defaultMode": int}, "emptyDir": {"medium": str}}],
}
JOB = {"parallelism": int, "completions": int, "completionMode": str, "backoffLimit": int, "template": {"spec": POD}}
REPLICAS = {"replicas": int, "template": {"spec": POD}}
FIELDS = {
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): {
        "failurePolicy": {"maxRestarts": int},
        "replicatedJobs": [{"name": str, "replicas": int, "template": {"spec": JOB}}],
    },
    ("kubeflow.org/v2beta1", "MPIJob"): {
        "slotsPerWorker": int, "sshAuthMountPath": str, "mpiImplementation": str, "launcherCreationPolicy": str,
        "runPolicy": {"cleanPodPolicy": str, "backoffLimit": int},
        "mpiReplicaSpecs": {"Launcher": REPLICAS, "Worker": REPLICAS},
    },
}


def unknown_fields(value, known, place):
    """Where `value` has what `known` has not, or a value of another type."""
    if isinstance(known, list) and isinstance(value, list):
        return [place_of for number, each in enumerate(value)
                for place_of in unknown_fields(each, known[0], f"{place}[{number}]")]
    if isinstance(known, dict) and isinstance(value, dict):
        return [place_of for name, each in value.items()
                for place_of in (unknown_fields(each, known[name], f"{place}.{name}") if name in known
                                 else [f"{place}.{name}"])]
    return [] if isinstance(known, type) and type(value) is known else [place]


def manifest(name):
    (document,) = yaml.safe_load_all((MANIFESTS / name).read_text())
    return document


def pod_of(jobset):
    (job,) = jobset["spec"]["replicatedJobs"]
    return job, job["template"]["spec"]["template"]["spec"]


def container_of(pod):
    (container,) = pod["containers"]
    return container


def here(text, folders):
    """A word of a container, with folders of this host for its own."""
    for theirs, ours in folders.items():
        text = text.replace(theirs, str(ours))
    return text


def free_port():
    """The first of two."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            try:
                second.bind(("127.0.0.1", first.getsockname()[1] + 1))
            except OSError:
                continue
            return first.getsockname()[1]


class JobSet(unittest.TestCase):
    def setUp(self):
        self.jobset = manifest("jobset.yaml")
        self.job, self.pod = pod_of(self.jobset)
        self.container = container_of(self.pod)
        self.environment = {variable["name"]: variable for variable in self.container["env"]}

    def test_all_processes_know_how_many_there_are(self):
        spec = self.job["template"]["spec"]
        self.assertEqual(spec["completionMode"], "Indexed")
        self.assertEqual(self.job["replicas"], 1)
        self.assertEqual(self.environment["WORLD_SIZE"]["value"], str(spec["completions"]))
        self.assertEqual(spec["parallelism"], spec["completions"])

    def test_rank_0_is_the_first_pod(self):
        name = self.jobset["metadata"]["name"]
        self.assertEqual(self.environment["MASTER_ADDR"]["value"], f"{name}-{self.job['name']}-0-0.{name}")
        self.assertEqual(self.environment["RANK"]["valueFrom"]["fieldRef"]["fieldPath"],
                         "metadata.annotations['batch.kubernetes.io/job-completion-index']")

    def test_volumes_are_there(self):
        volumes = {volume["name"]: volume for volume in self.pod["volumes"]}
        self.assertEqual({mount["name"] for mount in self.container["volumeMounts"]}, set(volumes))
        guide = (program.SOURCE / "docs" / "kubernetes.md").read_text()
        self.assertIn(f"create secret generic {volumes['secret']['secret']['secretName']} --from-file=secret", guide)

    def test_its_processes_train(self):
        processes = int(self.environment["WORLD_SIZE"]["value"])
        by_the_cluster = {"RANK", "MASTER_ADDR", "MASTER_PORT"}
        self.assertLessEqual(by_the_cluster, set(self.environment))
        port = free_port()
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            started = []
            for rank in range(processes):
                # As Kubernetes mounts them: each pod has its own memory, and a secret that others may read.
                folders = {"/usr/local/share/verbena": program.CORPUS.parent}
                for mount in self.container["volumeMounts"]:
                    own = folder / f"{rank}-{mount['name']}"
                    own.mkdir()
                    folders[mount["mountPath"]] = own
                secret = folders["/etc/verbena"] / "secret"
                secret.write_text("nobody else knows this\n")
                secret.chmod(0o440)
                words = [here(word, folders) for word in self.container["command"] + self.container["args"]]
                environment = {name: here(variable.get("value", ""), folders)
                               for name, variable in self.environment.items()}
                environment |= {"RANK": str(rank), "MASTER_ADDR": "localhost", "MASTER_PORT": str(port),
                                "PATH": f"{program.PROGRAM.parent}:{os.environ['PATH']}"}
                started.append(subprocess.Popen(words, env=environment, text=True, stdout=subprocess.PIPE,
                                                stderr=subprocess.PIPE))
            begin = time.monotonic()
            ended = [process.communicate(timeout=120) for process in started]
            print(f"{time.monotonic() - begin:.1f} s from the start of the last process to the end of the job")
        self.assertEqual([process.returncode for process in started], [0] * processes, ended)
        self.assertRegex(ended[0][0], f"{processes // 2} servers × {processes // 2} workers")
        self.assertIn("log_likelihood_per_token", ended[0][0])

    def test_over_rdma_only_what_must_differs(self):
        rdma = manifest("jobset-rdma.yaml")
        _, pod = pod_of(rdma)
        container = container_of(pod)
        security = container.pop("securityContext")
        self.assertEqual((security["runAsUser"], security["capabilities"]), (0, {"drop": ["ALL"], "add": ["IPC_LOCK", "DAC_OVERRIDE"]}))
        self.assertEqual(list(container["resources"].pop("limits")), ["rdma/hca_shared_devices_a"])
        self.assertEqual(container["args"].pop(), "--transport=verbs")
        pod["securityContext"] = self.pod["securityContext"]
        container["securityContext"] = self.container["securityContext"]
        self.assertEqual(rdma, self.jobset)


class MpiJob(unittest.TestCase):
    def test_its_launcher_trains(self):
        job = manifest("mpijob.yaml")["spec"]
        launcher = container_of(job["mpiReplicaSpecs"]["Launcher"]["template"]["spec"])
        words = launcher["command"] + launcher["args"]
        slots = job["slotsPerWorker"] * job["mpiReplicaSpecs"]["Worker"]["replicas"]
        self.assertEqual(words[:3], ["mpirun", "-n", str(slots)])
        environment = {**os.environ, "PATH": f"{program.PROGRAM.parent}:{os.environ['PATH']}", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
        ended = subprocess.run([here(word, {"/usr/local/share/verbena": program.CORPUS.parent}) for word in words],
                               env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("log_likelihood_per_token", ended.stdout)

    def test_keys_are_where_the_image_has_its_user(self):
        dockerfile = (program.PACKAGING / "container" / "Dockerfile").read_text()
        home = re.search(r"useradd --uid 1000 --home-dir (\S+)", dockerfile)[1]
        self.assertEqual(manifest("mpijob.yaml")["spec"]["sshAuthMountPath"], f"{home}/.ssh")

    def test_its_launcher_comes_when_ssh_servers_answer(self):
        spec = manifest("mpijob.yaml")["spec"]
        self.assertEqual(spec["launcherCreationPolicy"], "WaitForWorkersReady")
        probe = container_of(spec["mpiReplicaSpecs"]["Worker"]["template"]["spec"])["readinessProbe"]
        dockerfile = (program.PACKAGING / "container" / "Dockerfile").read_text()
        self.assertEqual(re.findall(r"'Port (\d+)'", dockerfile), [str(probe["tcpSocket"]["port"])] * 2)

    def test_over_rdma_only_what_must_differs(self):
        base, rdma = manifest("mpijob.yaml"), manifest("mpijob-rdma.yaml")
        replicas = rdma["spec"]["mpiReplicaSpecs"]
        launcher, worker = (container_of(replicas[name]["template"]["spec"]) for name in ("Launcher", "Worker"))
        self.assertEqual(launcher["args"].pop(0), "--allow-run-as-root")
        self.assertEqual(launcher["args"].pop(), "--transport=verbs")
        self.assertEqual(worker["securityContext"].pop("capabilities"), {"add": ["IPC_LOCK"]})
        self.assertEqual(list(worker["resources"].pop("limits")), ["rdma/hca_shared_devices_a"])
        of_base = container_of(base["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"])["securityContext"]
        for container in (launcher, worker):
            self.assertEqual(container["securityContext"], {"runAsUser": 0})
            container["securityContext"] = of_base
        # By default, keys are where root looks for them.
        self.assertNotIn("sshAuthMountPath", rdma["spec"])
        rdma["spec"]["sshAuthMountPath"] = base["spec"]["sshAuthMountPath"]
        self.assertEqual(rdma, base)


class Manifests(unittest.TestCase):
    def test_all_are_looked_at(self):
        self.assertEqual({path.name for path in MANIFESTS.iterdir()},
                         {"jobset.yaml", "jobset-rdma.yaml", "mpijob.yaml", "mpijob-rdma.yaml"})

    def test_their_fields_are_known(self):
        for path in MANIFESTS.iterdir():
            document = manifest(path.name)
            known = {"apiVersion": str, "kind": str, "metadata": {"name": str},
                     "spec": FIELDS[document["apiVersion"], document["kind"]]}
            self.assertEqual(unknown_fields(document, known, path.name), [])

    def test_those_for_tcp_are_restricted(self):
        """The pod security standard "restricted" of Kubernetes lets them in."""
        replicas = manifest("mpijob.yaml")["spec"]["mpiReplicaSpecs"]
        for pod in [pod_of(manifest("jobset.yaml"))[1], *(each["template"]["spec"] for each in replicas.values())]:
            own = container_of(pod)["securityContext"]
            both = pod.get("securityContext", {}) | own
            self.assertEqual(own["allowPrivilegeEscalation"], False)
            self.assertEqual(own["capabilities"], {"drop": ["ALL"]})
            self.assertEqual((both["runAsNonRoot"], both["seccompProfile"]), (True, {"type": "RuntimeDefault"}))
            self.assertLessEqual({kind for volume in pod.get("volumes", []) for kind in volume}, {"name", "secret", "emptyDir"})

    def test_images_are_those_that_the_dockerfile_makes(self):
        made = re.findall(r"--target (\S+) -t (\S+)", (program.PACKAGING / "container" / "Dockerfile").read_text())
        version = re.search(r"project\(verbena VERSION ([0-9.]+)", (program.SOURCE / "CMakeLists.txt").read_text())[1]
        self.assertEqual(made, [("verbena", f"verbena:{version}"), ("mpi", f"verbena-mpi:{version}")])
        for path in MANIFESTS.iterdir():
            image = f"verbena{'-mpi' if path.name.startswith('mpi') else ''}:{version}"
            self.assertEqual(set(re.findall(r"image: (\S+)", path.read_text())), {image}, path.name)


if __name__ == "__main__":
    unittest.main()
