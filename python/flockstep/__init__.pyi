# The public names and where they live: the one list, for type checkers and for __init__.py.
from flockstep import report as report
from flockstep._errors import BadFileError as BadFileError
from flockstep._errors import BadInputError as BadInputError
from flockstep._errors import BadTypeError as BadTypeError
from flockstep._errors import DeadlineExceededError as DeadlineExceededError
from flockstep._errors import Error as Error
from flockstep._errors import MismatchError as MismatchError
from flockstep._errors import PeerLostError as PeerLostError
from flockstep._errors import UnavailableError as UnavailableError
from flockstep._gradient_state import GradientState as GradientState
from flockstep._telemetry import TensorBoardWriter as TensorBoardWriter
from flockstep._telemetry import WandbWriter as WandbWriter
from flockstep._version import __version__ as __version__
from flockstep.averager import Averager as Averager
from flockstep.averagers import ADPSGD as ADPSGD
from flockstep.averagers import DPSGD as DPSGD
from flockstep.averagers import SGP as SGP
from flockstep.averagers import DiLoCo as DiLoCo
from flockstep.averagers import Flock as Flock
from flockstep.averagers import LocalSGD as LocalSGD
from flockstep.averagers import PostLocalSGD as PostLocalSGD
from flockstep.averagers import Swarm as Swarm
from flockstep.averagers import Wagma as Wagma
from flockstep.hooks import adacons as adacons
from flockstep.hooks import adacons_hook as adacons_hook
from flockstep.hooks import adasum as adasum
from flockstep.hooks import adasum_hook as adasum_hook
from flockstep.hooks import direction_consensus as direction_consensus
from flockstep.hooks import direction_consensus_hook as direction_consensus_hook
from flockstep.hooks import geometric_median as geometric_median
from flockstep.hooks import geometric_median_hook as geometric_median_hook
from flockstep.hooks import mean as mean
from flockstep.hooks import mean_hook as mean_hook
from flockstep.hooks import normalized_mean as normalized_mean
from flockstep.hooks import normalized_mean_hook as normalized_mean_hook
from flockstep.hooks import register as register
from flockstep.hooks import watch as watch
from flockstep.hooks import weighted_mean as weighted_mean
from flockstep.hooks import weighted_mean_hook as weighted_mean_hook
from flockstep.report.drawing import write_report as write_report
from flockstep.rules import AdaConsState as AdaConsState
from flockstep.rules import AdasumState as AdasumState
from flockstep.rules import DirectionConsensusState as DirectionConsensusState
from flockstep.rules import GeometricMedianState as GeometricMedianState
from flockstep.rules import MeanState as MeanState
from flockstep.rules import NormalizedMeanState as NormalizedMeanState
from flockstep.rules import WeightedMeanState as WeightedMeanState

# Former names, whose use is warned of.
DeadlineExceeded = DeadlineExceededError
PeerLost = PeerLostError
