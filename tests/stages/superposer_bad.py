#!/usr/bin/env python3
"""Gives broken ensembles to the superposer. Each error names the file, the place, what was found and what was expected.
The other files are done all the same."""

import os
import shutil
import sys
import tempfile

from superposer_ensembles import Ensemble, all_pairs, check, end, names_of, superposer, write
import numpy as np

SEED = 5


def said(text, *words):
    missing = [w for w in words if w not in text]
    check(not missing, f"says: {words[0]}" + (f"; not {missing}, but: {text[-3500:]}" if missing else ""))


def alone(work, made):
    """Files without any usable structure give exit code 1."""
    pdb, out = f"{work}/files/m000.pdb", f"{work}/out"
    rows = made.pdb_rows(0)
    empty = write(f"{work}/empty.pdb", "")
    said(superposer("--i", empty, "--o", out, expect=1), "empty.pdb: the file is empty", "not one structure")
    none = write(f"{work}/none.pdb", "HEADER    NOTHING\nEND\n")
    said(superposer("--i", none, "--o", out, expect=1), "none.pdb: there is no atom in it")
    said(superposer("--i", pdb, "--o", out, expect=1), "m000 is the only structure: two or more are needed")
    text = superposer("--i", f"{work}/models.pdb", "--o", out, "--chain", "X", expect=1)
    said(
        text, "models.pdb (structure 1): none of its 174 atoms is selected by select: ca, chain", "the chains 'A', 'B'"
    )
    said(superposer("--i", f"{work}/absent.pdb", "--o", out, expect=2), "absent.pdb: there is no such file")
    said(
        superposer("--i", f"{work}/models.pdb", "--o", out, "--residues", "9-3", expect=2),
        "residues: '9-3' is not a range",
    )
    said(
        superposer("--i", f"{work}/models.pdb", "--o", out, "--select", "beta", expect=2),
        "select",
        "it must be ca, backbone, heavy or all",
    )
    said(superposer("--i", f"{pdb},{pdb}", "--o", out, expect=2), "m000.pdb: the file is given twice")
    nan = write(
        f"{work}/nan.pdb",
        f"MODEL 1\n{rows}ENDMDL\nMODEL 2\n"
        + rows.replace(rows[30:38], "     nan", 1).replace(rows[81 + 30 : 81 + 38], "     nan", 1)
        + "ENDMDL\n",
    )
    said(
        superposer("--i", nan, "--o", out, expect=1),
        "nan.pdb (structure 2): line 179: the coordinates of CA of ALA -2 in chain A " "are not numbers ('",
        "nan",
    )
    star = write(
        f"{work}/star.pdb",
        f"MODEL 1\n{rows}ENDMDL\nMODEL 2\n" + rows.replace(rows[81 + 30 : 81 + 38], "********", 1) + "ENDMDL\n",
    )
    said(
        superposer("--i", star, "--o", out, expect=1), "star.pdb (structure 2): line 179", "too large for their columns"
    )
    text = superposer(
        "--i",
        f"{work}/models.pdb",
        "--o",
        out,
        "--clustering",
        "average",
        "--memory",
        "1",
        "--results",
        "neighbours",
        expect=2,
    )
    said(text, "clustering: average needs the RMSDs of all pairs")
    said(
        superposer("--i", f"{work}/models.pdb", "--o", out, "--superposed", "pdb", "--reference", none, expect=1),
        "none.pdb: there is no atom in it",
    )
    other = write(f"{work}/other.pdb", "".join(rows.splitlines(True)[:-40]))
    said(
        superposer("--i", f"{work}/models.pdb", "--o", f"{work}/refused", "--reference", other, expect=1),
        "other.pdb: ",
        " atoms are selected in it, and ",
    )
    check(
        not os.path.exists(f"{work}/refused/rmsd.npy"), "a reference of other atoms is refused before all is compared"
    )
    same = f"{work}/same"
    os.mkdir(same)
    shutil.copy(f"{work}/models.pdb", same)
    superposer("--i", same, "--o", same, "--centres", 1)
    said(superposer("--i", same, "--o", same, "--centres", 1, expect=3), "centre_0001.pdb: is called as a result")
    check(len(names_of(same)) == len(made.xyz), "centres of the run before do not count")


def trajectories(work, made):
    out, top = f"{work}/out", f"{work}/files/m000.pdb"
    dcd = made.write_dcd(f"{work}/t.dcd")
    said(superposer("--i", dcd, "--o", out, expect=1), "t.dcd: a DCD file does not say what its atoms are")
    whole = open(dcd, "rb").read()
    with open(f"{work}/cut.dcd", "wb") as file:
        file.write(whole[:-100])
    text = superposer("--i", f"{work}/cut.dcd", "--o", out, "--topology", top, expect=1)
    said(text, "cut.dcd: is cut short: it holds 5 whole frames of 174 atoms and a part of one, where its header says 6")
    other = write(f"{work}/other.pdb", "".join(made.pdb_rows(0).splitlines(True)[:-1]))
    said(
        superposer("--i", dcd, "--o", out, "--topology", other, expect=1),
        "t.dcd: has 174 atoms, and the topology has 173",
    )


def among_others(work, made):
    """Exit code 3: the log names the broken file with its reason, and the others are done."""
    folder, out = f"{work}/mixed", f"{work}/out-mixed"
    for i in range(len(made.xyz)):
        made.write_pdb(f"{folder}/m{i}.pdb", i)
    renamed = [(n, "TRP" if r == 5 and n == "CA" else res, c, r) for n, res, c, r in made.atoms]
    write(f"{folder}/x1.pdb", made.pdb_rows(1, renamed) + "END\n")
    fewer = "".join(row for row in made.pdb_rows(1).splitlines(True) if int(row[22:26]) < 20)
    write(f"{folder}/x2.pdb", fewer + "END\n")
    write(f"{folder}/x3.pdb", f"MODEL 1\n{made.pdb_rows(1)}ENDMDL\nMODEL 2\n{fewer}ENDMDL\n")
    write(f"{folder}/x4.pdb", made.pdb_rows(1)[:-40])
    write(f"{folder}/x5.cif", "data_x\nloop_\n_atom_site.label_atom_id\nCA\n")
    text = superposer("--i", folder, "--o", out, "--centres", 0, expect=3)
    said(text, "x1.pdb: its selected atom 8 is CA of TRP 5 in chain A, and in")
    said(text, "m0.pdb it is CA of SER 5 in chain A: all structures need the same atoms")
    said(text, "x2.pdb: 22 atoms are selected in it, and 30 in")
    said(text, "the next of them CA of SER 20 in chain B")
    said(text, "x3.pdb (structure 2): 22 atoms are selected in it, and 30 in structure 1")
    said(text, "x4.pdb: line 174: this row of an atom has 39 characters", "cut short")
    said(text, "x5.cif: line 4: its atoms have no _atom_site.Cartn_x")
    check(names_of(out) == [f"m{i}" for i in range(len(made.xyz))], "the others are compared")
    worst = np.abs(np.load(f"{out}/rmsd.npy") - all_pairs(made.xyz[:, made.index("CA")])).max()
    check(worst < 1e-4, f"RMSDs differ by {worst:.1e} Å at most")


def many_atoms(work):
    """Reads more atoms than five digits can number, written in three ways. Some of these ways follow no program."""
    made = Ensemble(SEED, count=3, residues=2000, shapes=1)
    rows = [made.pdb_rows(i).splitlines(True) for i in range(3)]
    first = 100000 - 20
    write(f"{work}/many/a.pdb", "".join(r[:6] + f"{k + first:5d}"[-5:] + r[11:] for k, r in enumerate(rows[0])))
    write(
        f"{work}/many/b.pdb",
        "".join(r[:6] + (f"{k + first:5d}" if k < 20 else "*****") + r[11:] for k, r in enumerate(rows[1])),
    )
    write(
        f"{work}/many/c.pdb", "".join(r[:6] + f"{k + first:5d}" + r[11:] for k, r in enumerate(rows[2]))
    )  # moves the columns behind the number
    superposer("--i", f"{work}/many", "--o", f"{work}/out-many", "--centres", 0)
    worst = np.abs(np.load(f"{work}/out-many/rmsd.npy") - all_pairs(made.xyz[:, made.index("CA")])).max()
    check(worst < 1e-3, f"numbers of atoms above 99,999: RMSDs differ by {worst:.1e} Å at most")


work = tempfile.mkdtemp(prefix="icestream-superposer-")
print(f"seed {SEED}, in {work}")
made = Ensemble(SEED, count=6)
made.write_pdb(f"{work}/files/m000.pdb", 0)
made.write_models(f"{work}/models.pdb")
alone(work, made)
trajectories(work, made)
among_others(work, made)
many_atoms(work)
if "--keep" not in sys.argv:
    shutil.rmtree(work)
end()
