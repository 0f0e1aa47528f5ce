// Status of the service in the footer, polled while the page is visible.

import * as api from "./api.js";

const EVERY = 5000; // milliseconds

export class ServiceStatus {
  // `returned` is called when the service answers again after an outage.
  constructor(node, returned) {
    this.node = node;
    this.returned = returned;
    this.there = true;
    setInterval(() => this.look(), EVERY);
    for (const event of ["online", "offline", "visibilitychange"]) addEventListener(event, () => this.look());
  }

  async look() {
    if (document.visibilityState === "hidden") return;
    try {
      await api.ready();
      if (!this.there) await this.returned();
    } catch (error) {
      if (error.away) this.away();
    }
  }

  ready(models) {
    this.there = true;
    this.node.textContent = `ready · ${models} ${models === 1 ? "model" : "models"}`;
  }

  away() {
    this.there = false;
    this.node.textContent = "the service is not answering";
  }
}
