#!/bin/sh
# Generates the stack's secrets, once: docker/secrets.sh [FOLDER], by default ./secrets. Existing files are kept.
# Only the folder's owner can enter it (0700); the files in it are readable by all (0444), because containers
# read them as different users. Needs only a POSIX shell, od and tr.
set -eu
folder=${1:-secrets}
umask 077
mkdir -p "$folder"
chmod 700 "$folder"

random() {  # 32 bytes as hexadecimal digits: safe in an address, an INI file and a shell
    od -An -N32 -tx1 /dev/urandom | tr -d ' \n'
}

secret() {  # NAME: a file of that name with the text on stdin
    if [ -e "$folder/$1" ]; then
        cat > /dev/null
    else
        cat > "$folder/$1.new"
        chmod 444 "$folder/$1.new"
        mv "$folder/$1.new" "$folder/$1"
    fi
}

for name in postgres_password keys_password mlflow_password mlflow_server_key ray_token grafana_password; do
    random | secret "$name"
done

# MLflow's clients read this as ~/.mlflow/credentials.
printf '[mlflow]\nmlflow_tracking_username = interlinear\nmlflow_tracking_password = %s\n' \
    "$(cat "$folder/mlflow_password")" | secret mlflow_credentials
