# Creates the database of the service's API keys, beside MLflow's, with its own user. PostgreSQL's image runs this file when
# it initialises the data directory. On an existing server, run it once by hand (docs/deploy-kubernetes.md).
psql --set=ON_ERROR_STOP=1 --set=password="$(cat "$KEYS_PASSWORD_FILE")" --set=mlflow="$POSTGRES_DB" \
    --username="$POSTGRES_USER" --dbname="$POSTGRES_DB" --no-password --quiet <<'SQL'
REVOKE CONNECT, TEMPORARY ON DATABASE :"mlflow" FROM PUBLIC;
CREATE ROLE interlinear LOGIN PASSWORD :'password';
GRANT interlinear TO CURRENT_USER; -- an administrator who is no superuser may give a database only to its own roles
CREATE DATABASE interlinear OWNER interlinear;
REVOKE CONNECT, TEMPORARY ON DATABASE interlinear FROM PUBLIC;
SQL
