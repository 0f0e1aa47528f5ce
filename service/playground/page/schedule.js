// When the input is sent: after a pause in typing, and at the latest after a second of it. One request is in flight.

const LONGEST_WAIT = 1000; // milliseconds of typing after which the text is sent even without a pause

export class Schedule {
  // `ready()` returns whether there is something to send, `send(signal)` sends it; `clear` is called where there is nothing.
  constructor({ ready, send, clear }) {
    Object.assign(this, { ready, send, clear, pause: 500, timer: 0, longest: 0, inFlight: null });
  }

  // Send after `delay` milliseconds, and abort a request in flight.
  after(delay) {
    this.cancel();
    if (this.ready()) this.timer = setTimeout(() => this.now(), delay);
    else this.clear();
  }

  // On typing: send after a pause, or after LONGEST_WAIT. A request in flight is not aborted.
  typed() {
    if (!this.ready()) return this.after(0);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.now(), this.pause);
    this.longest ||= setTimeout(() => {
      this.longest = 0;
      if (this.inFlight) this.inFlight.again = true;
      else this.now();
    }, LONGEST_WAIT);
  }

  cancel() {
    clearTimeout(this.timer);
    clearTimeout(this.longest);
    this.timer = this.longest = 0;
    this.inFlight?.abort();
    this.inFlight = null;
  }

  async now() {
    this.cancel();
    const own = (this.inFlight = new AbortController());
    try {
      await this.send(own.signal);
    } finally {
      if (this.inFlight === own) {
        this.inFlight = null;
        if (own.again) this.now();
      }
    }
  }

  // Send again after so many seconds unless `signal` is aborted; `show` is called with the seconds left.
  retry(seconds, signal, show) {
    let left = seconds;
    const tick = () => {
      if (signal.aborted) return;
      if (left <= 0) return void this.now();
      show(left);
      left -= 1;
      this.timer = setTimeout(tick, 1000);
    };
    tick();
  }
}
