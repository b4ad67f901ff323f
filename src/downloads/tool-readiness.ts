/** Which programs answer: asked now and then in the background, because anybody may ask for the list of tools. */
import { GatewayError, isGatewayError } from '../errors.js'
import type { Log } from '../log.js'
import type { Settings } from '../settings.js'
import type { DownloadTool } from './tool.js'

/** Milliseconds that an answer is good for. */
const goodFor = 60_000

interface Known {
  readonly isReady: boolean
  readonly until: number
}

export class ToolReadiness {
  readonly #known = new Map<string, Known>()
  readonly #closed = new AbortController()
  readonly #unsubscribe: () => void
  #access = ''

  constructor(
    private readonly tools: readonly DownloadTool[],
    private readonly settings: Settings,
    private readonly log: Log,
  ) {
    this.#unsubscribe = settings.onChange(() => this.#settingsChanged())
  }

  /** Asks those that an admin has set up. */
  start(): void {
    this.#access = this.#accessNow()
    this.#refresh()
  }

  close(): void {
    this.#unsubscribe()
    this.#closed.abort()
  }

  /** Of those that answered when they were asked last. */
  get names(): readonly string[] {
    this.#refresh()
    return this.tools.map(({ name }) => name).filter((name) => this.#known.get(name)?.isReady)
  }

  /** It has answered just now. */
  found(name: string): void {
    this.#access = this.#accessNow()
    this.#known.set(name, { isReady: true, until: Date.now() + goodFor })
  }

  #settingsChanged(): void {
    const access = this.#accessNow()
    if (access === this.#access) return
    this.#access = access
    this.#known.clear()
    this.#refresh()
  }

  #accessNow(): string {
    return this.tools.flatMap(({ accessKeys }) => accessKeys.map((key) => this.settings.get(key))).join('\n')
  }

  /** Whatever listens where a program would by default is nobody's to be asked for one. */
  #refresh(): void {
    const setUp = this.tools.filter(({ accessKeys }) => accessKeys.some((key) => this.settings.isStored(key)))
    for (const tool of setUp) {
      const known = this.#known.get(tool.name)
      if (known && known.until > Date.now()) continue
      this.#known.set(tool.name, { isReady: known?.isReady === true, until: Date.now() + goodFor })
      void this.#ask(tool)
    }
  }

  async #ask(tool: DownloadTool): Promise<void> {
    const { signal } = this.#closed
    try {
      await tool.probe(signal)
      this.#known.set(tool.name, { isReady: true, until: Date.now() + goodFor })
    } catch (error) {
      if (signal.aborted) return
      // One that refuses us would lock us out if it was asked again and again.
      const isRefused = isGatewayError(error, 'denied')
      this.#known.set(tool.name, { isReady: false, until: isRefused ? Infinity : Date.now() + goodFor })
      if (!(error instanceof GatewayError)) this.log.warn({ err: error, tool: tool.name }, 'a tool could not be asked')
    }
  }
}
