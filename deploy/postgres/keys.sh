# The database of the service's API keys, beside MLflow's, with a user of its own: PostgreSQL's image reads this file when
# it makes its first database. In a cluster that is there already, an operator runs it once (docs/operations.md).
psql --set=ON_ERROR_STOP=1 --set=password="$(cat "$KEYS_PASSWORD_FILE")" --set=mlflow="$POSTGRES_DB" \
    --username="$POSTGRES_USER" --dbname="$POSTGRES_DB" --no-password --quiet <<'SQL'
REVOKE CONNECT, TEMPORARY ON DATABASE :"mlflow" FROM PUBLIC;
CREATE ROLE interlinear LOGIN PASSWORD :'password';
CREATE DATABASE interlinear OWNER interlinear;
REVOKE CONNECT, TEMPORARY ON DATABASE interlinear FROM PUBLIC;
SQL
