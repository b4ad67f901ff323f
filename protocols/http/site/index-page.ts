/** The index page of a web client, reloaded when its file changes. */
import type { OpenFile } from '../../../src/contract/capabilities.js'
import { toGatewayError } from '../../../src/contract/errors.js'
import type { Log } from '../../../src/contract/log.js'
import { readPart } from '../../lib/file-body.js'
import { PageTemplate } from './page-template.js'
import type { WebFolder } from './web-folder.js'

/** Minimum time between checks of the file, in milliseconds. */
const checkInterval = 1000

export class IndexPage {
  readonly #folder: WebFolder
  readonly #log: Log
  #template: PageTemplate
  /** The revision of the file that `#template` was made from. Undefined after a failed read. */
  #revision: string | undefined
  #lastCheck = performance.now()
  #pendingCheck: Promise<void> | undefined

  private constructor(folder: WebFolder, log: Log, template: PageTemplate, revision: string | undefined) {
    this.#folder = folder
    this.#log = log
    this.#template = template
    this.#revision = revision
  }

  /** Reads the page. Rejects with `not_found` if the folder has no readable `index.html`. */
  static async read(folder: WebFolder, log: Log): Promise<IndexPage> {
    const file = await folder.open(['index.html'])
    try {
      return new IndexPage(folder, log, await templateOf(file), file.entry.revision)
    } finally {
      await file.close()
    }
  }

  /** The page as of at most a second ago. If the file cannot be read, the last page that was. Never rejects. */
  async current(): Promise<PageTemplate> {
    if (performance.now() - this.#lastCheck >= checkInterval) {
      this.#pendingCheck ??= this.#reloadIfChanged().finally(() => {
        this.#lastCheck = performance.now()
        this.#pendingCheck = undefined
      })
      await this.#pendingCheck
    }
    return this.#template
  }

  async #reloadIfChanged(): Promise<void> {
    try {
      const file = await this.#folder.open(['index.html'])
      try {
        const { revision } = file.entry
        if (revision === this.#revision) return
        this.#template = await templateOf(file)
        this.#revision = revision
      } finally {
        await file.close()
      }
    } catch (error) {
      // A new build may be in the middle of its installation, so log only the first failure.
      if (this.#revision !== undefined) {
        const { code, reason } = toGatewayError(error)
        this.#log.warn({ code, reason, folder: this.#folder.path }, 'cannot read index page of web client')
      }
      this.#revision = undefined
    }
  }
}

async function templateOf(file: OpenFile): Promise<PageTemplate> {
  const bytes = await readPart(file, { offset: 0, length: file.entry.size })
  return new PageTemplate(bytes.toString('utf8'))
}
