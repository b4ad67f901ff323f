/**
 * Probes in the background which programs answer, so that the list of tools, which any client may request, is cached.
 */
import { GatewayError, isGatewayError } from '../base/errors.js'
import type { Log } from '../base/log.js'
import type { Settings } from '../settings/settings.js'
import type { DownloadTool } from './tool.js'

/** Milliseconds until the result of a probe expires. */
const lifetime = 60_000

interface ProbeResult {
  readonly isReady: boolean
  readonly until: number
}

export class ToolReadiness {
  readonly #results = new Map<string, ProbeResult>()
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

  /** Starts the first probes. */
  start(): void {
    this.#access = this.#accessNow()
    this.#refresh()
  }

  close(): void {
    this.#unsubscribe()
    this.#closed.abort()
  }

  /** The names of the tools that answered their last probe. */
  get readyNames(): readonly string[] {
    this.#refresh()
    return this.tools.map(({ name }) => name).filter((name) => this.#results.get(name)?.isReady)
  }

  /** Records that the tool has just answered. */
  markReady(name: string): void {
    this.#access = this.#accessNow()
    this.#results.set(name, { isReady: true, until: Date.now() + lifetime })
  }

  #settingsChanged(): void {
    const access = this.#accessNow()
    if (access === this.#access) return
    this.#access = access
    this.#results.clear()
    this.#refresh()
  }

  #accessNow(): string {
    return this.tools
      .flatMap(({ settingKeys: accessKeys }) => accessKeys.map((key) => this.settings.get(key)))
      .join('\n')
  }

  /**
   * Probes the tools that an admin has configured. The default addresses are not probed: other programs may listen
   * there.
   */
  #refresh(): void {
    const configured = this.tools.filter(({ settingKeys: accessKeys }) =>
      accessKeys.some((key) => this.settings.isStored(key)),
    )
    for (const tool of configured) {
      const result = this.#results.get(tool.name)
      if (result && result.until > Date.now()) continue
      this.#results.set(tool.name, { isReady: result?.isReady === true, until: Date.now() + lifetime })
      void this.#probe(tool)
    }
  }

  async #probe(tool: DownloadTool): Promise<void> {
    const { signal } = this.#closed
    try {
      await tool.probe(signal)
      this.#results.set(tool.name, { isReady: true, until: Date.now() + lifetime })
    } catch (error) {
      if (signal.aborted) return
      // Repeated sign-ins with wrong credentials could lock the gateway out.
      const isRefused = isGatewayError(error, 'denied')
      this.#results.set(tool.name, { isReady: false, until: isRefused ? Infinity : Date.now() + lifetime })
      if (!(error instanceof GatewayError))
        this.log.warn({ err: error, tool: tool.name }, 'failed to probe a download tool')
    }
  }
}
