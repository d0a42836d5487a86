# Whoever holds these files can connect to the scheduler and the workers, and nobody else.
papilio slurm credentials "$run/credentials"
export DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=True
export DASK_DISTRIBUTED__COMM__TLS__CA_FILE=$run/credentials/certificate.pem
for role in CLIENT SCHEDULER WORKER; do
    export "DASK_DISTRIBUTED__COMM__TLS__${role}__CERT=$run/credentials/certificate.pem"
    export "DASK_DISTRIBUTED__COMM__TLS__${role}__KEY=$run/credentials/key.pem"
done
