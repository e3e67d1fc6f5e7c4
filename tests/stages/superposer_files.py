#!/usr/bin/env python3
"""Runs icestream-superposer on files. Every format gives the RMSDs that NumPy computes, and the other results agree
with them."""

import csv
import json
import os
import shutil
import sys
import tempfile

from superposer_ensembles import (
    DATA,
    Ensemble,
    all_pairs,
    check,
    clusters_of,
    end,
    fit,
    names_of,
    neighbourhoods,
    square,
    superposer,
    write,
)
import numpy as np

SEED = 4
CUTOFF = 2.5


def rmsd(folder):
    return np.load(os.path.join(folder, "rmsd.npy"))


def formats(work, made):
    """The same structures in all formats, and named in all ways, give the same bytes."""
    count, ca = len(made.xyz), made.index("CA")
    expected = all_pairs(made.xyz[:, ca])
    for i in range(count):
        made.write_pdb(f"{work}/files/m{i:03d}.pdb", i)
    listed = write(f"{work}/list.txt", "".join(f"files/m{i:03d}.pdb  # {i}\n" for i in range(count)))
    models, cif = made.write_models(f"{work}/models.pdb"), made.write_cif(f"{work}/models.cif")
    dcd, swapped = made.write_dcd(f"{work}/a.dcd"), made.write_dcd(f"{work}/b.dcd", order=">", cell=False, said=0)
    top = f"{work}/files/m000.pdb"
    ways = {
        "folder": [f"{work}/files"],
        "glob": [f"{work}/files/*.pdb"],
        "list": [listed],
        "models": [models],
        "cif": [cif],
        "commas": [",".join(f"{work}/files/m{i:03d}.pdb" for i in range(count))],
        "dcd": [dcd, "--topology", top],
        "dcd-swapped": [swapped, "--topology", top],
    }
    first = None
    for way, arguments in ways.items():
        out = f"{work}/out-{way}"
        superposer("--i", *arguments, "--o", out, "--cutoff", CUTOFF, "--centres", 0)
        found = rmsd(out)
        first = found if first is None else first
        check(
            found.dtype == np.float32 and found.shape == (count * (count - 1) // 2,),
            f"{way}: {found.dtype} {found.shape}",
        )
        check(
            np.abs(found - expected).max() < 1e-4,
            f"{way}: RMSDs differ by {np.abs(found - expected).max():.1e} Å at most",
        )
        check(np.array_equal(found, first), f"{way}: the same bytes")
        names = names_of(out)
        kind = {"folder": "m", "commas": "m", "list": "files/m"}.get(way)
        if kind:
            check(names == [f"{kind}{i:03d}" for i in range(count)], f"{way}: names {names[:2]} …")
        elif way != "glob":
            stem = {"dcd": "a", "dcd-swapped": "b"}.get(way, "models")
            check(names == [f"{stem}:{i + 1}" for i in range(count)], f"{way}: names {names[:2]} …")
    made.write_cif(f"{work}/others/m001.cif")
    made.write_models(f"{work}/others/m002.pdb")
    superposer("--i", f"{work}/files,{work}/others", "--o", f"{work}/again", "--centres", 0)
    found = [name.rsplit(":")[0] for name in names_of(f"{work}/again")[count::count]]
    check(found[0] == "m001.cif" and found[1].endswith("/others/m002"), f"namesakes: {found}")
    return expected


def clusters(work, made, expected):
    matrix, models = square(expected), f"{work}/models.pdb"
    cluster, centres = neighbourhoods(matrix, CUTOFF)
    found = list(clusters_of(f"{work}/out-models").values())
    check([c for c, _ in found] == list(cluster + 1), f"{len(centres)} neighbourhoods below {CUTOFF} Å")
    check([i for i, (_, is_centre) in enumerate(found) if is_centre] == sorted(centres), f"centres {centres}")

    # Tests a cut-off that splits the shapes, too.
    close = float(np.quantile(matrix[np.equal.outer(made.shape, made.shape) & (matrix > 0)], 0.4))
    cluster, centres = neighbourhoods(matrix, close)
    text = superposer("--i", models, "--o", f"{work}/close", "--cutoff", close, "--centres", 0)
    check(
        f"icestream-superposer: {len(matrix)} structures, {len(centres)} clusters, the largest of {max(np.bincount(cluster))}\n"
        in text,
        f"what it came to: {text}",
    )
    found = list(clusters_of(f"{work}/close").values())
    check(
        [c for c, _ in found] == list(cluster + 1) and len(centres) > 4,
        f"{len(centres)} neighbourhoods below {close:.3f} Å",
    )
    out = f"{work}/average"
    superposer("--i", models, "--o", out, "--cutoff", CUTOFF, "--clustering", "average", "--centres", 2)
    found = list(clusters_of(out).values())
    by_shape = [{found[i][0] for i in np.flatnonzero(made.shape == s)} for s in range(3)]
    check(
        all(len(s) == 1 for s in by_shape) and len(set.union(*by_shape)) == 3,
        f"average linkage parts the shapes: {by_shape}",
    )
    try:
        from scipy.cluster.hierarchy import fcluster, linkage

        superposer("--i", models, "--o", f"{work}/close", "--cutoff", close, "--clustering", "average", "--centres", 0)
        for cutoff, table in ((CUTOFF, found), (close, list(clusters_of(f"{work}/close").values()))):
            other, own = fcluster(linkage(expected, "average"), cutoff, "distance"), [c for c, _ in table]
            same = len(set(zip(other, own))) == len(set(other)) == len(set(own))
            check(same, f"as SciPy has it: {len(set(own))} below {cutoff:.3f} Å")
    except ImportError as missing:
        print(f"     without SciPy: {missing}")
    files = sorted(f for f in os.listdir(out) if f.startswith("centre_"))
    check(files == ["centre_0001.pdb", "centre_0002.pdb"], f"{files}")
    for number, name in enumerate(files, 1):
        centre = next(i for i, f in enumerate(found) if f == (number, True))
        members = [i for i, f in enumerate(found) if f[0] == number]
        best = members[int(np.argmin(matrix[np.ix_(members, members)].sum(1)))]
        check(centre == best, f"centre {centre} has the least sum of distances")
        rows = [r for r in open(f"{out}/{name}") if r.startswith("ATOM")]
        xyz = np.array([[float(r[30:38]), float(r[38:46]), float(r[46:54])] for r in rows])
        check(
            xyz.shape == made.xyz[centre].shape and np.abs(xyz - made.xyz[centre]).max() < 6e-4,
            f"{name} has all its atoms",
        )
    superposer("--i", models, "--o", out, "--cutoff", 100)
    check(
        sorted(f for f in os.listdir(out) if f.startswith("centre_")) == ["centre_0001.pdb"],
        "centres of before are removed",
    )


def neighbours(work, made, expected):
    matrix, out = square(expected), f"{work}/neighbours"
    superposer("--i", f"{work}/models.pdb", "--o", out, "--cutoff", CUTOFF, "--results", "neighbours", "--centres", 0)
    starts, index, values = (np.load(f"{out}/neighbours_{n}.npy") for n in ("starts", "index", "rmsd"))
    check(not os.path.exists(f"{out}/rmsd.npy"), "no matrix beside neighbours")
    pairs = [(i, int(j)) for i in range(len(matrix)) for j in index[starts[i] : starts[i + 1]]]
    check(pairs == list(zip(*np.nonzero(np.triu(matrix < CUTOFF, 1)))), f"{len(pairs)} neighbours below {CUTOFF} Å")
    check(np.abs(values - [matrix[p] for p in pairs]).max() < 1e-4, "with their RMSDs")
    check(clusters_of(out) == clusters_of(f"{work}/out-models"), "the same clusters without a matrix")
    superposer("--i", f"{work}/models.pdb", "--o", out, "--cutoff", CUTOFF, "--results", "both", "--centres", 0)
    check(np.array_equal(rmsd(out), rmsd(f"{work}/out-models")), "both: matrix and neighbours")


def selections(work, made):
    models = f"{work}/models.pdb"
    masses = {"N": 14.007, "C": 12.011, "O": 15.999, "H": 1.008}
    cases = {
        "backbone": (["--select", "backbone"], made.index("N", "CA", "C", "O"), None),
        "heavy": (["--select", "heavy"], made.index("N", "CA", "C", "O", "CB"), None),
        "all": (["--select", "all", "--weights", "mass"], made.index(), [masses[a[0][0]] for a in made.atoms]),
        "chain": (["--chain", "B"], made.index("CA", chain="B"), None),
        "range": (
            ["--residues", "-1-5,9-12", "--method", "kabsch"],
            np.concatenate([made.index("CA", residues=(-1, 5)), made.index("CA", residues=(9, 12))]),
            None,
        ),
        "jacobi": (["--method", "jacobi"], made.index("CA"), None),
    }
    for name, (arguments, index, weights) in cases.items():
        superposer("--i", models, "--o", f"{work}/sel-{name}", "--centres", 0, *arguments)
        worst = np.abs(rmsd(f"{work}/sel-{name}") - all_pairs(made.xyz[:, index], weights)).max()
        check(worst < 1e-4, f"{name}: {len(index)} atoms, RMSDs differ by {worst:.1e} Å at most")


def on_reference(work, made):
    """Puts structures on the third one: rotation, translation, coordinates and RMSDs agree."""
    ca, out = made.index("CA"), f"{work}/on"
    reference = made.xyz[2]
    for kind, out in (("pdb", f"{work}/on-pdb"), ("dcd", f"{work}/on-dcd"), ("npy", f"{work}/on")):
        superposer(
            "--i",
            f"{work}/models.pdb",
            "--o",
            out,
            "--reference",
            f"{work}/files/m002.pdb",
            "--superposed",
            kind,
            "--rotations",
            "--centres",
            0,
        )
    rotations, translations = np.load(f"{out}/rotations.npy"), np.load(f"{out}/translations.npy")
    moved = np.load(f"{out}/superposed.npy")
    values = [float(row["rmsd"]) for row in csv.DictReader(open(f"{out}/reference_rmsd.csv"))]
    expected = [fit(reference[ca], x[ca])[0] for x in made.xyz]
    check(np.abs(np.array(values) - expected).max() < 1e-4, "RMSDs to the reference")
    check(
        np.abs(np.linalg.det(rotations) - 1).max() < 1e-9
        and np.abs(rotations @ rotations.transpose(0, 2, 1) - np.eye(3)).max() < 1e-9,
        "rotations are rotations",
    )
    again = np.einsum("nab,nkb->nka", rotations, made.xyz[:, ca]) + translations[:, None]
    check(np.abs(again - moved).max() < 1e-4, "rotation · x + translation is where superposed.npy has it")
    check(np.abs(np.sqrt(((moved - reference[ca]) ** 2).sum(2).mean(1)) - expected).max() < 1e-4, "that is the optimum")
    whole = np.einsum("nab,nkb->nka", rotations, made.xyz) + translations[:, None]
    superposer("--i", f"{work}/models.pdb", "--o", out, "--centres", 0)
    left = [f for f in os.listdir(out) if f.startswith(("superposed", "rotations", "reference"))]
    check(not left, f"what was not asked for again is gone: {left}")
    return whole


def by_others(work, made, whole):
    """MDTraj and MDAnalysis read the results and compute the same values. The superposer reads files that they and
    gemmi write."""

    def reads(what, path, least=1e-3):
        topology = ["--topology", f"{work}/files/m000.pdb"] if path.endswith("dcd") else []
        superposer("--i", path, "--o", f"{work}/theirs", "--centres", 0, *topology)
        worst = np.abs(rmsd(f"{work}/theirs") - rmsd(f"{work}/out-models")).max()
        check(worst < least, f"a file of {what}: RMSDs differ by {worst:.1e} Å at most")

    try:
        import mdtraj

        traj = mdtraj.load(f"{work}/models.pdb")
        ca = traj.topology.select("name CA")
        found = [mdtraj.rmsd(traj, traj, i, atom_indices=ca)[i + 1 :] * 10 for i in range(traj.n_frames - 1)]
        worst = np.abs(np.concatenate(found) - rmsd(f"{work}/out-models")).max()
        check(worst < 2e-3, f"MDTraj {mdtraj.version.version}: RMSDs differ by {worst:.1e} Å at most")
        for name, least in (("on-pdb/superposed.pdb", 1e-3), ("on-dcd/superposed.dcd", 1e-4)):
            frames = mdtraj.load(
                f"{work}/{name}", **({"top": f"{work}/files/m000.pdb"} if name.endswith("dcd") else {})
            )
            worst = np.abs(frames.xyz * 10 - whole).max()
            check(worst < least, f"MDTraj reads {name}: within {worst:.1e} Å")
        traj.save_dcd(f"{work}/mdtraj.dcd")
        reads("MDTraj's", f"{work}/mdtraj.dcd")
        traj.save_pdb(f"{work}/mdtraj.pdb")
        reads("MDTraj's", f"{work}/mdtraj.pdb")
        check(names_of(f"{work}/theirs")[:2] == ["mdtraj:0", "mdtraj:1"], "whose first model is 0")
    except ImportError as missing:
        print(f"     without MDTraj: {missing}")
    try:
        import MDAnalysis
        from MDAnalysis.analysis.rms import rmsd as one

        universe = MDAnalysis.Universe(f"{work}/files/m000.pdb", f"{work}/on-dcd/superposed.dcd")
        ca = universe.select_atoms("name CA")
        xyz = np.array([ca.positions.astype(float) for _ in universe.trajectory])
        found = np.array(
            [
                one(xyz[i], xyz[j], center=True, superposition=True)
                for i in range(len(xyz))
                for j in range(i + 1, len(xyz))
            ]
        )
        worst = np.abs(found - rmsd(f"{work}/out-models")).max()
        check(worst < 1e-3, f"MDAnalysis {MDAnalysis.__version__}: RMSDs differ by {worst:.1e} Å at most")
        universe.atoms.write(f"{work}/mdanalysis.dcd", frames="all")
        reads("MDAnalysis'", f"{work}/mdanalysis.dcd")
    except ImportError as missing:
        print(f"     without MDAnalysis: {missing}")
    try:
        import gemmi

        structure = gemmi.read_structure(f"{work}/models.pdb")
        structure.setup_entities()
        structure.make_mmcif_document().write_file(f"{work}/gemmi.cif")
        reads(f"gemmi {gemmi.__version__}", f"{work}/gemmi.cif", 1e-6)
    except ImportError as missing:
        print(f"     without gemmi: {missing}")


def real_models(work):
    path, reference = os.path.join(DATA, "rmsd/1l2y.pdb"), os.path.join(DATA, "rmsd/rmsd_reference.json")
    if not os.path.exists(path) or not os.path.exists(reference):
        print(f"     skipped: there is no {path}")
        return
    known = json.load(open(reference))["biotite/1l2y.pdb"]
    out = f"{work}/1l2y"
    superposer("--i", path, "--o", out, "--select", "ca")
    found, matrix = rmsd(out), square(rmsd(out))
    check(len(matrix) == known["models"], f"1l2y: {len(matrix)} models")
    for what, value in (("pair_mean", found.mean(dtype=float)), ("pair_min", found.min()), ("pair_max", found.max())):
        check(abs(value - known[what]) < 1e-4, f"1l2y {what}: {value:.6f}, known {known[what]:.6f}")
    check(np.abs(matrix[0, :6] - known["first_vs"]).max() < 1e-4, "1l2y: the first against the next")
    check(int(np.argmin(matrix.sum(1))) == known["medoid"], f"1l2y: medoid {known['medoid']}")
    # One file calls the hydrogens 1HD1, the other HD11. The value is that of the files' authors.
    two = [os.path.join(DATA, "rmsd/charnley", f) for f in ("ci2_1.pdb", "ci2_2.pdb", "ci2_1r+t.pdb")]
    if all(map(os.path.exists, two)):
        superposer("--i", ",".join(two), "--o", f"{work}/ci2", "--select", "all")
        other, same, _ = rmsd(f"{work}/ci2")
        check(abs(other - 11.7768) < 1e-4, f"ci2: {other:.4f} Å, known 11.7768")
        check(same < 1e-3, f"ci2, turned and moved: {same:.4f} Å")


work = tempfile.mkdtemp(prefix="icestream-superposer-")
print(f"seed {SEED}, in {work}")
made = Ensemble(SEED)
expected = formats(work, made)
clusters(work, made, expected)
neighbours(work, made, expected)
selections(work, made)
whole = on_reference(work, made)
by_others(work, made, whole)
real_models(work)
if "--keep" not in sys.argv:
    shutil.rmtree(work)
end()
