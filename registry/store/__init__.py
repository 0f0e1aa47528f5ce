"""The MLflow store: logs bundles as models, registers them under names and resolves aliases."""

from registry.store.mlflow_store import MlflowStore
from registry.store.records import LoggedBundle, ModelRecord, Promotion, StoredModel

__all__ = ["LoggedBundle", "MlflowStore", "ModelRecord", "Promotion", "StoredModel"]
