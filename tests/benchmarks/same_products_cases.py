"""Lists what same_products.py runs: how inputs are made, and one case for each mode of each stage.

A case is one command or several, run in a folder that contains inputs/. OUT stands for the folder of its products.
`copy PATTERN FOLDER` copies files."""

import dataclasses

STAGES = (
    "watcher",
    "lowpass-picker",
    "extractor",
    "classifier",
    "refiner",
    "superposer",
    "tilt-reconstructor",
    "crystal-scorer",
)

# ---- inputs

FEW = 120  # particles of most refinements
TILT_SIDE, TILT_DEPTH = 64, 20
BEGAN = 1_700_000_000  # time of change of the first input

SESSIONS = {
    "session": "--micrographs 6 --size 640 --pixel_size 4 --box 64 --particles 60 --min_distance 125 --interval 0 "
    "--seed 7 --map_box 48 --carbon 0.3",
    "tiff": "--micrographs 2 --size 512 --pixel_size 4 --box 64 --particles 30 --min_distance 125 --interval 0 "
    "--seed 8 --map_box 48 --format tiff --mode uint16",
    "int8": "--micrographs 2 --size 512 --pixel_size 4 --box 64 --particles 30 --min_distance 125 --interval 0 "
    "--seed 9 --map_box 48 --mode int8",
}
TILT = f"--size {TILT_SIDE} --thickness {TILT_DEPTH} --balls 20"
TILTS = {
    "stack": f"{TILT} --step 6 --snr 5 --seed 1",
    "shifted": f"{TILT} --step 6 --snr 20 --shift 4 --seed 2",
    "single": f"{TILT} --step 10 --snr 5 --seed 3 --files single --order dose-symmetric --name TS_01",
}
DROPS = ("--o inputs/drops --count 3 --seed 1", "--o inputs/drop_series --count 14 --series 5 --seed 2")

# Folders and files of the real data that are copied to inputs/real, if they exist.
REAL = (
    ("apoferritin/micrographs/May08_03_05_02.mrc", "May08_03_05_02.mrc"),
    ("apoferritin/templates.mrcs", "templates.mrcs"),
    ("rmsd/1l2y.pdb", "1l2y.pdb"),
    ("marco/200.jpeg", "drops/200.jpeg"),
    ("marco/6488.jpeg", "drops/6488.jpeg"),
    ("tiff", "tiff"),
    ("tiltstack/tests/test_data", "tiltstack"),
)

SEARCH = "--templates inputs/session/truth/templates.mrcs --diameter 130 --angle_step 30 --threads 2"
LOG = "--method log --diameter 130 --threads 2"
CTF = "--i inputs/session/truth/micrographs_ctf.star"
# All particles come before the first iteration: otherwise the number of iterations before the end would depend on time.
REFINE = "--diameter 150 --min_particles 100000 --healpix_order 1"
REFERENCE = "--reference inputs/session/truth/reference.mrc"
CLASSIFY = "--diameter 160 --minimum_particles 100000"
LEARN = "--train inputs/drops/labels.csv --trees 30 --threads 2"
SERIES = "--series '{drop}_t{time}'"

# (program, its arguments, the folder that it fills), which goes to inputs/earlier.
EARLIER = (
    (
        "icestream-lowpass-picker",
        f"{CTF} --o maps_template {SEARCH} --whiten on --keep_maps true --write_png false",
        "maps_template",
    ),
    (
        "icestream-lowpass-picker",
        f"{CTF} --o maps_log {LOG} --whiten on --keep_maps true --write_png false",
        "maps_log",
    ),
    ("icestream-crystal-scorer", "--i inputs/drops --o features --keep_features --stride 40", "features"),
    ("icestream-crystal-scorer", f"{LEARN} --o model --features simple", "model"),
    (
        "icestream-crystal-scorer",
        "--train inputs/drop_series/labels.csv --trees 30 --threads 2 --o series_model "
        f"--features simple {SERIES} --folds 2",
        "series_model",
    ),
    (
        "icestream-refiner",
        f"--i inputs/few.star --o refiner.resumed {REFERENCE} {REFINE} --max_iterations 2 " "--threads 2",
        "refiner.resumed",
    ),
)

SESSION = "session: {pixel_size: 4, voltage: 300, spherical_aberration: 2.7, amplitude_contrast: 0.1}\n"
# One item at a time: joined tables list items in the order in which they are done.
SINGLE_PARTICLES = SESSION + """stages:
  watcher:        {directory: inputs/session/micrographs, ctf: inputs/session/truth/micrographs_ctf.star, settle: 0.3,
                   poll: 0.1}
  lowpass-picker: {from: watcher, templates: inputs/session/truth/templates.mrcs, diameter: 130, angle_step: 30,
                   threads: 1, lanes: 1}
  extractor:      {from: lowpass-picker, box: 64, downscale_to: 40, threads: 1, lanes: 1}
"""
SCORED_GRAPH = SINGLE_PARTICLES + """\
  classifier:     {from: extractor, classes: 4, diameter: 160, minimum_particles: 100000, final_passes: 1, threads: 1}
  refiner:        {from: classifier, reference: inputs/session/truth/reference.mrc, diameter: 150, healpix_order: 1,
                   min_particles: 100000, max_iterations: 2, threads: 1}
"""
CRYSTALS = """stages:
  watcher:        {directory: inputs/drop_series, pattern: "clear*.png,*_t01.png,*_t02.png", settle: 0.3, poll: 0.1}
  crystal-scorer: {from: watcher, model: inputs/earlier/series_model/crystals.model, series: "{drop}_t{time}",
                   threads: 1, lanes: 1}
"""
ENSEMBLE = """stages:
  watcher:    {directory: inputs/structures/single, pattern: "*.pdb", settle: 0.3, poll: 0.1}
  superposer: {from: watcher, cutoff: 3, snapshot_interval: 600, threads: 1}
"""
TOMOGRAPHY = """stages:
  watcher:            {directory: inputs/single/tilts, pattern: "*.mrc", series: mdoc, settle: 0.3, poll: 0.1}
  tilt-reconstructor: {from: watcher, thickness: 20, iterations: 3, tilts_per_series: 13, threads: 1}
"""


# ---- cases


@dataclasses.dataclass
class Case:
    group: str
    name: str
    commands: list
    expect: tuple = (0,)  # exit codes that are not failures
    needs: tuple = ()  # inputs that only exist with real data
    copies: tuple = ()  # (folder, folder): copied before the first command
    files: tuple = ()  # (text, path): written before the first command
    log_ids: bool = False  # compare the ids of log lines
    numbers: bool = False  # compare the numbers of standard output


def of_stage(stage, modes, before="", **more):
    """Returns the cases of a stage: {name: words of the command}."""
    return [
        Case(stage, name, [f"icestream-{stage} {before} {words} --verbose --o OUT"], log_ids=True, **more)
        for name, words in modes.items()
    ]


def simulators():
    session = "--micrographs 2 --size 256 --particles 8 --interval 0 --map_box 32 --box 64"
    commands = {
        "micrographs": f"icestream-simulate {session} --seed 3",
        "micrographs-tiff": f"icestream-simulate {session} --seed 4 --format tiff --mode uint16 --grow true",
        "micrographs-drift": f"icestream-simulate {session} --seed 5 --mode int8 --drifted 1 --carbon 1",
        "tilts": "icestream-simulate-tilts --size 48 --thickness 16 --step 10 --snr 2 --shift 3 --seed 6",
        "tilts-single": "icestream-simulate-tilts --size 48 --thickness 16 --step 10 --files single "
        "--order dose-symmetric --background 5 --seed 7",
        "drops": "icestream-simulate-drops --count 1 --seed 8",
        "drops-series": "icestream-simulate-drops --count 2 --series 3 --seed 9",
    }
    return [Case("simulators", name, [command + " --o OUT"]) for name, command in commands.items()]


def watcher():
    quick = "--until_idle 0.7 --settle 0.3 --poll 0.1 --pixel_size 4"
    return of_stage(
        "watcher",
        {
            "plain": "--i inputs/session/micrographs",
            "ctf": "--i inputs/session/micrographs --ctf inputs/session/truth/micrographs_ctf.star --order newest",
            "pattern": "--i inputs --pattern 'mic_*.tiff,mic_*.tif,*.png' --recursive true --notices false",
            "not-recursive": "--i inputs/session --recursive false",
            "series-names": "--i inputs/single/tilts --series '{series}_{order}_{angle}.mrc' --pattern '*.mrc'",
            "series-mdoc": "--i inputs/single/tilts --series mdoc --pattern '*.mrc'",
            "structures": "--i inputs/structures/single --pattern '*.pdb' --scaled false",
        },
        quick,
    ) + of_stage("watcher", {"broken": "--i inputs/broken --stall 0.3"}, quick, expect=(3,))


def lowpass_picker():
    few = "--i inputs/session/micrographs/mic_00002.mrc"
    return (
        of_stage(
            "lowpass-picker",
            {
                "template": f"{CTF} {SEARCH} --keep_maps true",
                "template-relion": f"{CTF} {SEARCH} --prune relion --size_rule relion --lowpass 30",
                "template-plain": f"{few} {SEARCH} --whiten off --ctf false --mask_contamination false --threshold 0.3",
                "map": f"{few} --templates inputs/session/truth/reference.mrc --symmetry D2 --angle_step 60 --threads 1",
                "log": f"{CTF} {LOG} --keep_maps true",
                "log-diameters": f"{few} {LOG} --log_diameter 100,160 --threshold 0.1 --max_stddev_noise 1.1 --invert false",
                "contamination": f"{CTF} {SEARCH} --contamination_threshold 5 --min_distance 100 --max_stddev_noise 1.05",
                "full-resolution": f"{few} {SEARCH} --lowpass 0 --angle_step 90",
                "tiff": f"--i inputs/tiff/truth/micrographs_ctf.star {SEARCH}",
                "int8": f"--i inputs/int8/micrographs {LOG}",
                "from-maps-template": f"{CTF} --from_maps inputs/earlier/maps_template --threshold 0.2",
                "from-maps-log": f"{CTF} --from_maps inputs/earlier/maps_log --method log --threshold 0.2",
                "rejected": f"{CTF} {LOG} --write_png false --reject_if 'ctf_fom < 0.5'",
            },
        )
        + of_stage("lowpass-picker", {"broken": f"--i inputs/broken {LOG}"}, expect=(3,))
        + of_stage(
            "lowpass-picker",
            {
                "real": "--i inputs/real/May08_03_05_02.mrc --pixel_size 1.5 --templates inputs/real/templates.mrcs "
                "--angle_step 45 --threads 2"
            },
            needs=("inputs/real/May08_03_05_02.mrc", "inputs/real/templates.mrcs"),
        )
    )


def extractor():
    picks = "--i inputs/session/picks.star,inputs/session/truth/micrographs_ctf.star"
    return of_stage(
        "extractor",
        {
            "plain": f"{picks} --box 64 --threads 2",
            "downscaled": f"{picks} --box 64 --downscale_to 40 --threads 1 --lanes 1",
            "as-they-are": f"{picks} --box 48 --invert false --normalise false --threads 1",
            "background": f"{picks} --box 72 --downscale_to 48 --background_radius 20 --threads 1",
            "best": f"{picks} --box 64 --minimum_pick_fom 0.5 --threads 1",
            "tiff": "--i inputs/tiff/picks.star,inputs/tiff/truth/micrographs_ctf.star --box 64 --downscale_to 32",
            "png": "--i inputs/png/picks.star --pixel_size 4 --voltage 300 --spherical_aberration 2.7 "
            "--amplitude_contrast 0.1 --box 64",
        },
    )


def classifier():
    return of_stage(
        "classifier",
        {
            "plain": f"--i inputs/particles/particles.star {CLASSIFY} --classes 6 --threads 2 --final_passes 3",
            "all": f"--i inputs/few.star {CLASSIFY} --classes 3 --keep all --seed 5 --threads 1 --psi_step 20 --visits 3",
            "rule": f"--i inputs/few.star {CLASSIFY} --classes 4 --keep 'quality >= 0.4 and members > 20' --off_centre 15 "
            "--threads 1 --final_passes 1 --offset_range 3 --offset_step 1.5 --tau_fudge 4 --resolution 15",
            "two-groups": f"--i inputs/two_groups.star {CLASSIFY} --classes 3 --threads 2 --final_passes 1 --visits 3",
            "little-memory": f"--i inputs/few.star {CLASSIFY} --classes 3 --threads 2 --final_passes 1 --visits 3 "
            "--image_memory 0 --memory 0.25",
        },
    ) + of_stage("classifier", {"premultiplied": f"--i inputs/premultiplied.star {CLASSIFY}"}, expect=(3,))


def refiner():
    few, short = f"--i inputs/few.star {REFINE}", "--max_iterations 3"
    return (
        of_stage(
            "refiner",
            {
                "auto": f"--i inputs/particles/particles.star {REFERENCE} {REFINE} --threads 2",
                "symmetry": f"{few} {REFERENCE} {short} --symmetry D2 --threads 1 --initial_lowpass 40",
                "mask": f"{few} {REFERENCE} {short} --mask inputs/mask.mrc --offset_range 3 --keep_iterations 1 --threads 2",
                "local": f"{few} {REFERENCE} {short} --local_order 1 --auto_mask false --seed 3 --threads 2",
                "reliability": f"{few} {REFERENCE} {short} --reliability --reliability_norm l2sq --max_significant 50 "
                "--threads 1",
                "classes": f"{few} {REFERENCE} --classes 2 --iterations 4 --threads 2",
                "references": f"{few} --reference inputs/references.star --classes 2 --iterations 3 --seed 2 --threads 1",
                "two-groups": f"--i inputs/two_groups.star {REFERENCE} {REFINE} {short} --threads 2",
                "joined": f"{few} {REFERENCE} {short} --join_resolution 15 --tau_fudge 2 --offset_step 2 --threads 2",
            },
        )
        + of_stage("refiner", {"premultiplied": f"--i inputs/premultiplied.star {REFERENCE} {REFINE}"}, expect=(3,))
        + of_stage(
            "refiner",
            {"resumed": f"{few} {REFERENCE} --max_iterations 5 --threads 2"},
            copies=(("inputs/earlier/refiner.resumed", "OUT"),),
        )
    )


def superposer():
    models, top = "--i inputs/structures/models.pdb", "--topology inputs/structures/single/m00.pdb"
    return of_stage(
        "superposer",
        {
            "qcp": f"{models} --cutoff 3 --rotations --superposed pdb",
            "jacobi": f"{models} --cutoff 3 --method jacobi --select backbone --rotations",
            "kabsch": f"{models} --cutoff 3 --method kabsch --select heavy --superposed dcd --rotations",
            "average": f"{models} --cutoff 3 --clustering average --select all --centres 2 --superposed npy",
            "neighbours": f"{models} --cutoff 3 --results neighbours --threads 1",
            "both": f"{models} --cutoff 2.5 --results both --chain A --residues 2-9,12-15",
            "mass": f"{models} --select all --weights mass --reference inputs/structures/single/m03.pdb",
            "occupancy": f"{models} --select all --weights occupancy",
            "b-factor": f"{models} --select heavy --weights b_factor",
            "folder": "--i inputs/structures/single --cutoff 3",
            "glob": "--i 'inputs/structures/single/m0*.pdb' --cutoff 3",
            "cif": "--i inputs/structures/models.cif --cutoff 3 --superposed pdb",
            "dcd": f"--i inputs/structures/models.dcd {top} --cutoff 3 --superposed dcd",
        },
    ) + of_stage(
        "superposer", {"real": "--i inputs/real/1l2y.pdb --cutoff 1 --superposed pdb"}, needs=("inputs/real/1l2y.pdb",)
    )


def tilt_reconstructor():
    depth, few = f"--thickness {TILT_DEPTH}", f"--thickness {TILT_DEPTH} --iterations 5"
    stack, shifted = "--i inputs/stack/tilts/ts.st", "--i inputs/shifted/tilts/ts.st"
    return of_stage(
        "tilt-reconstructor",
        {
            "sirt": f"{stack} {depth} --threads 2",
            "sirt-linear": f"{stack} {few} --basis linear --start plain --threads 1",
            "sirt-voxel": f"{stack} {few} --basis voxel --start zero --non_negative --mask inputs/tilt_mask.mrc "
            "--threads 2",
            "ellr": f"{stack} {few} --matrix ellr --relaxation 0.7",
            "blob-ellr": f"{stack} {few} --matrix blob-ellr --precision float16",
            "ellr-linear": f"{stack} {few} --matrix ellr --basis linear",
            "stop": f"{stack} {depth} --iterations 60 --stop 0.01",
            "wbp": f"{stack} {depth} --method wbp",
            "wbp-hamming": f"{stack} {depth} --method wbp --roll_off hamming --cutoff 0.8 --bin 2",
            "wbp-ramp": f"{stack} {depth} --method wbp --roll_off ramp --normalise variance --exclude 3,7-9",
            "normalise-none": f"{stack} {few} --normalise none --bin 2",
            "normalise-mean": f"{stack} {few} --normalise mean --tilts inputs/stack/tilts/ts.st.mdoc",
            "transforms": f"{shifted} {few} --transforms beside",
            "coarse": f"{shifted} {few} --align coarse --tilt_axis 5",
            "single": f"--i inputs/single/tilts/TS_01.mdoc {few}",
            "single-tiff": f"--i inputs/single_tiff/TS_01.mdoc {few} --align coarse",
            "folder": f"--i inputs/stack/tilts {few}",
        },
    ) + of_stage(
        "tilt-reconstructor",
        {
            "real": "--i inputs/real/tiltstack/tilt_images --tilts inputs/real/tiltstack/mdoc/TS_01.mrc.mdoc --thickness 8 "
            "--iterations 2"
        },
        needs=("inputs/real/tiltstack",),
        expect=(0, 3),
    )


def crystal_scorer():
    return of_stage(
        "crystal-scorer",
        {
            "train-simple": f"{LEARN} --features simple --folds 3",
            "train-statistics": f"{LEARN} --features statistics --folds 2",
            "train-kept": f"{LEARN} --features_from inputs/earlier/features --stride 40 --folds 2",
            "train-series": f"--train inputs/drop_series/labels.csv --trees 30 --features simple {SERIES} --folds 2 "
            "--threads 1",
            "features": "--i inputs/drops/crystal_0001.png,inputs/drops/skin_0002.png --keep_features --stride 30 "
            "--centre 150,160 --diameter 120 --window 27",
            "score": "--i inputs/drops --model inputs/earlier/model/crystals.model --threads 2",
            "score-likely": "--i inputs/drops/labels.csv --model inputs/earlier/model/crystals.model --likely 0.5 "
            "--threads 1 --lanes 1 --centre 150,150",
            "score-series": "--i inputs/drop_series --model inputs/earlier/series_model/crystals.model --threads 1 "
            f"{SERIES}",
        },
    ) + of_stage(
        "crystal-scorer",
        {
            "real": "--i inputs/real/drops --model inputs/earlier/model/crystals.model",
            "real-features": "--i inputs/real/drops --keep_features --stride 40",
        },
        needs=("inputs/real/drops",),
    )


def sessions():
    """Returns short live sessions whose items are all there before the start, and programs that report about a session."""
    graphs = {"single-particles": SCORED_GRAPH, "crystals": CRYSTALS, "ensemble": ENSEMBLE, "tomography": TOMOGRAPHY}
    found = [
        Case(
            "sessions",
            name,
            [f"icestream run {name}.yaml --session OUT --until-idle 1.5"],
            files=((text, f"{name}.yaml"),),
        )
        for name, text in graphs.items()
    ]
    # Resumed with more micrographs: classifier and refiner continue from their last iterations.
    run, micrographs = (
        "icestream run resumed.yaml --session OUT --until-idle 1.5",
        "inputs/session/micrographs/mic_0000",
    )
    found.append(
        Case(
            "sessions",
            "resumed",
            [f"copy {micrographs}[1-4].mrc arriving", run, f"copy {micrographs}[56].mrc arriving", run],
            files=((SCORED_GRAPH.replace("inputs/session/micrographs,", "arriving,"), "resumed.yaml"),),
        )
    )
    found.append(
        Case(
            "sessions",
            "score",
            ["icestream-score --session inputs/earlier/scored --truth " "inputs/session/truth"],
            numbers=True,
        )
    )
    return found


def brightness():
    return of_stage(
        "brightness", {"plain": "--i inputs/session/micrographs", "png": "--i inputs/png --pixel_size 4"}
    ) + of_stage(
        "brightness", {"real-tiff": "--i inputs/real/tiff --pixel_size 1"}, needs=("inputs/real/tiff",), expect=(0, 3)
    )


def all_cases():
    return [
        case
        for make in (
            refiner,
            classifier,
            simulators,
            watcher,
            lowpass_picker,
            extractor,
            superposer,
            tilt_reconstructor,
            crystal_scorer,
            sessions,
            brightness,
        )
        for case in make()
    ]


def groups():
    return ["simulators", *STAGES, "brightness", "sessions", "describe"]
