/** How full a backend is, for those who do not wait for it: one that does not answer keeps nobody waiting twice. */
import type { Usage } from './driver.js'

/** Milliseconds that somebody waits. */
const patience = 1000
/** Milliseconds after which the backend is told that nobody wants to know any more. */
const longest = 30_000

export class PatientUsage {
  /** On its way; everybody shares it. */
  #asked: Promise<Usage | undefined> | undefined
  #late = false

  constructor(private readonly ask: (signal: AbortSignal) => Promise<Usage>) {}

  /** Undefined where the backend does not tell, or not in time; at once while an answer is overdue. */
  async soon(): Promise<Usage | undefined> {
    this.#asked ??= this.ask(AbortSignal.timeout(longest))
      .catch(() => undefined)
      .finally(() => {
        this.#asked = undefined
        this.#late = false
      })
    if (this.#late) return undefined
    let timer: NodeJS.Timeout | undefined
    const enough = new Promise<undefined>((resolve) => {
      timer = setTimeout(() => {
        this.#late = true
        resolve(undefined)
      }, patience)
    })
    try {
      return await Promise.race([this.#asked, enough])
    } finally {
      clearTimeout(timer)
    }
  }
}
