"""Makes ensembles, writes them in every format, and computes their RMSDs (Kabsch by NumPy's SVD, in double)."""

import os
import subprocess
import sys

SKIP = 77
try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(SKIP)

BIN = os.environ.get("ICESTREAM_BIN", os.path.join(os.path.dirname(__file__), "../../build/cpu/bin"))
DATA = os.environ.get("ICESTREAM_DATA", os.path.join(os.path.dirname(__file__), "../../../shared/data"))
RESIDUES = ("ALA", "GLY", "SER", "LEU", "LYS")
failures = []


def check(condition, text):
    print("ok  " if condition else "FAIL", text, flush=True)
    if not condition:
        failures.append(text)


def end():
    print(f"{len(failures)} checks failed")
    sys.exit(1 if failures else 0)


class Ensemble:
    """Holds `count` structures of residues of N, CA, C, O, CB (no CB in glycine) and H: `shapes` random coils, each
    with noise and at a random position. Coordinates have three decimals and fit a PDB file."""

    def __init__(self, seed, count=24, residues=30, shapes=3, noise=0.7):
        random = np.random.default_rng(seed)
        names = [
            (n, r)
            for r in range(residues)
            for n in ("N", "CA", "C", "O", "CB", "H")
            if not (n == "CB" and RESIDUES[r % 5] == "GLY")
        ]
        self.atoms = [(n, RESIDUES[r % 5], "A" if r < 2 * residues // 3 else "B", r - 2) for n, r in names]
        where = np.array([r for _, r in names])
        self.xyz = np.empty((count, len(names), 3))
        coils = [np.cumsum(random.normal(size=(residues, 3)) * 2.2, axis=0) for _ in range(shapes)]
        inner = random.normal(size=(len(names), 3))
        self.shape = np.arange(count) % shapes
        for i in range(count):
            x = coils[self.shape[i]][where] + inner + random.normal(size=inner.shape) * noise
            q, _ = np.linalg.qr(random.normal(size=(3, 3)))
            self.xyz[i] = x @ (q * np.sign(np.linalg.det(q))).T + random.normal(size=3) * 20
        self.xyz = np.round(self.xyz, 3)

    def index(self, *names, chain=None, residues=None):
        return np.array(
            [
                i
                for i, (n, _, c, r) in enumerate(self.atoms)
                if (not names or n in names)
                and (chain is None or c == chain)
                and (residues is None or residues[0] <= r <= residues[1])
            ]
        )

    def pdb_rows(self, model, atoms=None):
        rows = []
        for i, (name, residue, chain, number) in enumerate(atoms or self.atoms):
            x, y, z = self.xyz[model][i]
            rows.append(
                f"ATOM  {i + 1:5d}  {name:<3s} {residue} {chain}{number:4d}    {x:8.3f}{y:8.3f}{z:8.3f}  1.00 10.00"
                f"          {name[0]:>2s}\n"
            )
        return "".join(rows)

    def write_pdb(self, path, model):
        return write(path, self.pdb_rows(model) + "END\n")

    def write_models(self, path):
        return write(
            path, "".join(f"MODEL     {i + 1:4d}\n{self.pdb_rows(i)}ENDMDL\n" for i in range(len(self.xyz))) + "END\n"
        )

    def write_cif(self, path):
        text = ["data_MADE\n#\nloop_\n"]
        text += [
            f"_atom_site.{c}\n"
            for c in (
                "group_PDB",
                "id",
                "type_symbol",
                "label_atom_id",
                "auth_atom_id",
                "label_comp_id",
                "auth_comp_id",
                "label_asym_id",
                "auth_asym_id",
                "label_seq_id",
                "auth_seq_id",
                "pdbx_PDB_ins_code",
                "label_alt_id",
                "Cartn_x",
                "Cartn_y",
                "Cartn_z",
                "pdbx_PDB_model_num",
            )
        ]
        for model, xyz in enumerate(self.xyz):
            for i, (name, residue, chain, number) in enumerate(self.atoms):
                x, y, z = xyz[i]
                text.append(
                    f"ATOM {i + 1} {name[0]} '{name}' \"{name}\" {residue} {residue} Z {chain} {number + 3} {number} ? . "
                    f"{x:.3f} {y:.3f} {z:.3f} {model + 1}\n"
                )
        return write(path, "".join(text) + "#\n")

    def write_dcd(self, path, order="<", cell=True, said=None):
        def record(data):
            return np.array([len(data)], order + "i4").tobytes() + data + np.array([len(data)], order + "i4").tobytes()

        head = np.zeros(20, order + "i4")
        head[0], head[10], head[19] = len(self.xyz) if said is None else said, cell, 24
        out = record(b"CORD" + head.tobytes())
        out += record(np.array([1], order + "i4").tobytes() + b"made up".ljust(80))
        out += record(np.array([len(self.atoms)], order + "i4").tobytes())
        for xyz in self.xyz:
            if cell:
                out += record(np.array([1, 90, 1, 90, 90, 1], order + "f8").tobytes())
            for axis in range(3):
                out += record(xyz[:, axis].astype(order + "f4").tobytes())
        with open(path, "wb") as file:
            file.write(out)
        return path


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
    return path


def fit(reference, moving, weights=None):
    """Returns (rmsd, rotation, translation): rotation @ x + translation is x on the reference."""
    w = np.ones(len(reference)) if weights is None else np.asarray(weights, float)
    w = w / w.sum()
    a, b = w @ reference, w @ moving
    p, q = reference - a, moving - b
    u, s, v = np.linalg.svd((q * w[:, None]).T @ p)
    d = np.diag([1, 1, np.sign(np.linalg.det(u) * np.linalg.det(v))])
    rotation = (u @ d @ v).T
    moved = q @ rotation.T
    return np.sqrt((w * ((moved - p) ** 2).sum(1)).sum()), rotation, a - rotation @ b


def all_pairs(xyz, weights=None):
    n = len(xyz)
    return np.array([fit(xyz[i], xyz[j], weights)[0] for i in range(n) for j in range(i + 1, n)])


def square(pairs):
    n = int(round((1 + np.sqrt(1 + 8 * len(pairs))) / 2))
    matrix = np.zeros((n, n))
    matrix[np.triu_indices(n, 1)] = pairs
    return matrix + matrix.T


def neighbourhoods(matrix, cutoff):
    """Returns (cluster of each, centres). Takes out the largest neighbourhood, then the largest of the rest, and so on;
    of equal ones the first."""
    left, cluster, centres = np.ones(len(matrix), bool), np.full(len(matrix), -1), []
    close = matrix < cutoff
    while left.any():
        sizes = np.where(left, (close & left).sum(1), -1)
        centre = int(np.argmax(sizes))
        members = left & (close[centre] | (np.arange(len(matrix)) == centre))
        cluster[members] = len(centres)
        centres.append(centre)
        left &= ~members
    return cluster, centres


def superposer(*arguments, expect=0, **options):
    """Runs the program, checks its exit code, and returns its standard error."""
    result = subprocess.run(
        [os.path.join(BIN, "icestream-superposer"), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=100,
        **options,
    )
    if result.returncode != expect:
        check(
            False,
            f"superposer {' '.join(map(str, arguments))}: exit {result.returncode}, not {expect}: {result.stderr[-600:]}",
        )
    return result.stderr + result.stdout


def names_of(folder):
    return open(os.path.join(folder, "structures.txt")).read().splitlines()


def clusters_of(folder):
    """Returns {structure: (cluster, is centre)}. Names in these tests hold no commas."""
    lines = open(os.path.join(folder, "clusters.csv")).read().splitlines()
    assert lines[0] == "structure,cluster,is_centre", lines[0]
    return {name: (int(cluster), centre == "1") for name, cluster, centre in (line.split(",") for line in lines[1:])}
