-- One database for Prefect's server, one for MLflow's; the owner is the user of POSTGRES_USER.
CREATE DATABASE prefect;
CREATE DATABASE mlflow;
