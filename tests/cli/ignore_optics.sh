# Aberrations that a table states are corrected; a broken value is an error. The extractor takes them
# over into its table. Each goes on without them if it is told to.
mkdir mics
python3 - <<'END'
import random
import struct

random.seed(7)


def mrc(name, nx, ny, nz, spread):
    header = bytearray(1024)
    struct.pack_into("<10i", header, 0, nx, ny, nz, 2, 0, 0, 0, nx, ny, nz)
    struct.pack_into("<3f", header, 40, nx * 4.0, ny * 4.0, nz * 4.0)
    header[208:216] = b"MAP " + bytes([0x44, 0x44, 0, 0])
    values = [random.gauss(0, spread) for _ in range(nx * ny * nz)]
    open(name, "wb").write(bytes(header) + struct.pack(f"<{len(values)}f", *values))


def star(name, column, value, table):
    extra = f"_{column} #6\n" if column else ""
    open(name, "w").write(
        "data_optics\n\nloop_\n_rlnOpticsGroup #1\n_rlnOpticsGroupName #2\n_rlnVoltage #3\n_rlnImagePixelSize #4\n"
        f"_rlnMicrographPixelSize #5\n{extra}1 g 300 4 4 {value}\n\n{table}"
    )


particles = "data_particles\n\nloop_\n_rlnImageName #1\n_rlnOpticsGroup #2\n" + "".join(
    f"{i + 1:06d}@p.mrcs 1\n" for i in range(4)
)
micrographs = "data_micrographs\n\nloop_\n_rlnMicrographName #1\n_rlnOpticsGroup #2\nmics/a.mrc 1\n"
picks = "data_\n\nloop_\n_rlnCoordinateX #1\n_rlnCoordinateY #2\n32 32\n"
mrc("p.mrcs", 16, 16, 4, 1)
mrc("mics/a.mrc", 64, 64, 1, 1)
mrc("map.mrc", 16, 16, 16, 1)
open("mics/a_picks.star", "w").write(picks)
open("picks.star", "w").write(
    "data_\n\nloop_\n_rlnMicrographName #1\n_rlnMicrographCoordinates #2\nmics/a.mrc mics/a_picks.star\n"
)
cases = [
    ("none", "", ""),
    ("tilt", "rlnBeamTiltX", "0.31"),
    ("zero", "rlnBeamTiltY", "0.000000"),
    ("one", "rlnMagMat11", "1.000000"),
    ("magnified", "rlnMagMat00", "1.004"),
    ("odd", "rlnOddZernike", "[0,0,0.2,0]"),
    ("even", "rlnEvenZernike", "[0,0,0,0,0,-0.4]"),
    ("flat", "rlnEvenZernike", "[0,0,0]"),
    ("mtf", "rlnMtfFileName", "mtf_k3.star"),
    ("text", "rlnBeamTiltX", "much"),
]
for name, column, value in cases:
    star(f"p_{name}.star", column, value, particles)
    star(f"m_{name}.star", column, value, micrographs)
open("p_rows.star", "w").write(
    "data_\n\nloop_\n_rlnImageName #1\n_rlnImagePixelSize #2\n_rlnBeamTiltY #3\n000001@p.mrcs 4 0\n000002@p.mrcs 4 -0.5\n"
)
END
reason() { grep -o 'the optics of .*\|[^ ]*: data_.*expected' "$1" | sort -u; }
for case in none tilt zero one magnified odd even flat mtf rows text; do
  icestream-classifier --i p_$case.star --o "c_$case" --particles-per-class 2 2>err
  echo "classifier $case exit $? $(reason err)"
done
icestream-classifier --i p_tilt.star --o c_ignored --ignore-optics 2>err
echo "classifier ignored exit $? $(reason err)"
columns() { grep -ho '^_rln\(Beam\|MagM\|Odd\|Even\|Mtf\)[A-Za-z0-9]*\|^ *g .*' "$1" | awk '{print $1 == "g" ? $NF : $1}' | tr '\n' ' '; }
for case in none tilt odd magnified mtf; do
  icestream-extractor --i m_$case.star,picks.star --o "e_$case" --box 16 2>err
  echo "extractor $case exit $? $(reason err) $(columns e_$case/particles.star)"
done
icestream-extractor --i m_tilt.star,picks.star --o e_ignored --box 16 --ignore-optics 2>err
echo "extractor ignored exit $? $(columns e_ignored/particles.star)"
icestream-refiner --i p_text.star --o r_text --diameter 40 --reference map.mrc 2>err
echo "refiner text exit $? $(reason err)"
