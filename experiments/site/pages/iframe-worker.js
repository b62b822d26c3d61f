// A worker within a frame, for pages that are opened as files: browsers start no real one there.
window.IFrameWorker = class extends EventTarget {
  constructor(url) {
    super();
    this.waiting = [];
    this.frame = document.createElement("iframe");
    this.frame.hidden = true;
    this.frame.srcdoc = "<body></body>";
    this.frame.onload = () => {
      const inner = this.frame.contentWindow;
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inner.document.createElement("script");
      script.src = url;
      script.onload = () => {
        const waited = this.waiting;
        this.waiting = null;
        waited.forEach((data) => this.postMessage(data));
      };
      inner.document.body.append(script);
    };
    document.body.append(this.frame);
  }
  postMessage(data) {
    if (this.waiting) this.waiting.push(data);
    else this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
  }
  terminate() {
    this.frame.remove();
  }
};
if (location.protocol === "file:") window.Worker = window.IFrameWorker;
