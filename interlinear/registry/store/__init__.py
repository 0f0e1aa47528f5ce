"""The MLflow store: logs bundles as models, registers them under names and resolves aliases."""

from interlinear.registry.store.mlflow_store import MlflowStore
from interlinear.registry.store.records import LoggedBundle, ModelRecord, Promotion, StoredModel

__all__ = ["LoggedBundle", "MlflowStore", "ModelRecord", "Promotion", "StoredModel"]
