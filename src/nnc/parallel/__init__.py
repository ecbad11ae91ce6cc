"""More processes than one: the same program on every rank of a launch, and what the ranks do together.

    nnc launch -n 4 train.py                          four processes of one program, by MPI (extra `mpi`)

    ranks = nnc.parallel.world()                      rank, size; allreduce … of arrays
    y = nnc.parallel.allreduce(x)                     the same as operators, with gradients, in graphs and eagerly
    nn.Model(layer, shape, mesh=Mesh(data=4))         each rank trains on its part of every batch
    nn.Model(layer, shape, mesh=Mesh(tensor=2))       each rank has a block of the weights of products
    model.simulate(16, Wire(2e-6, 1e-10), 0.1)        seconds of a step on so many ranks, without a launch

A process that nobody launched is a world of one rank, where all of it runs as copies.
"""

from nnc.parallel.clusters import launch_with_dask as launch_with_dask
from nnc.parallel.clusters import launch_with_ray as launch_with_ray
from nnc.parallel.collectives import all_gather as all_gather
from nnc.parallel.collectives import all_to_all as all_to_all
from nnc.parallel.collectives import allreduce as allreduce
from nnc.parallel.collectives import allreduce_all as allreduce_all
from nnc.parallel.collectives import broadcast as broadcast
from nnc.parallel.collectives import receive as receive
from nnc.parallel.collectives import reduce as reduce
from nnc.parallel.collectives import reduce_scatter as reduce_scatter
from nnc.parallel.collectives import send as send
from nnc.parallel.collectives import shift as shift
from nnc.parallel.communicator import Communicator as Communicator
from nnc.parallel.communicator import world as world
from nnc.parallel.mesh import Mesh as Mesh
from nnc.parallel.mesh import RankGroup as RankGroup
from nnc.parallel.mesh import count_of_all as count_of_all
from nnc.parallel.mesh import everyone as everyone
from nnc.parallel.mesh import joined as joined
from nnc.parallel.pipelining import Pipeline as Pipeline
from nnc.parallel.simulating.simulation import Simulation as Simulation
from nnc.parallel.simulating.simulation import simulate as simulate
from nnc.parallel.simulating.simulation import simulate_stages as simulate_stages
from nnc.parallel.simulating.wire import Wire as Wire
from nnc.parallel.simulating.wire import measure_wire as measure_wire
from nnc.parallel.together import all_or_none as all_or_none
