# How to start several processes of this host, as the array mpirun; exits with 77 where there is no mpirun. Sourced, after
# expect.sh.
# shellcheck shell=bash disable=SC2034 # used by the script that sources this
mpirun=(mpirun)
case $(mpirun --version 2>/dev/null) in
*'Open MPI'*)
    mpirun+=(--allow-run-as-root --oversubscribe --bind-to none)
    # One host is enough, also where it has no network.
    export OMPI_MCA_btl=self,vader OMPI_MCA_pml=ob1 OMPI_MCA_plm=isolated
    ;;
'')
    echo "no mpirun: skipped"
    exit 77
    ;;
esac
