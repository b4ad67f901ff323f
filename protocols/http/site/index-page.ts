/** The index page of a web client, reloaded when its file changes. */
import type { OpenFile } from '../../../src/contract/capabilities.js'
import { toGatewayError } from '../../../src/base/errors.js'
import type { Log } from '../../../src/base/log.js'
import { readPart } from '../../lib/file-body.js'
import { PageTemplate, type Placeholder } from './page-template.js'
import type { WebFolder } from './web-folder.js'

/** Minimum time between checks of the file, in milliseconds. */
const checkInterval = 1000

interface IndexPageOptions {
  readonly folder: WebFolder
  readonly placeholders: readonly Placeholder[]
  readonly log: Log
}

interface Page {
  readonly template: PageTemplate
  readonly revision: string | undefined
}

export class IndexPage {
  readonly #folder: WebFolder
  readonly #placeholders: readonly Placeholder[]
  readonly #log: Log
  #template: PageTemplate
  /** The revision of the file that `#template` was made from. Undefined after a failed read. */
  #revision: string | undefined
  #lastCheck = performance.now()
  #pendingCheck: Promise<void> | undefined

  private constructor({ folder, placeholders, log }: IndexPageOptions, page: Page) {
    this.#folder = folder
    this.#placeholders = placeholders
    this.#log = log
    this.#template = page.template
    this.#revision = page.revision
  }

  /** Reads the page. Rejects with `not_found` if the folder has no readable `index.html`. */
  static async read(options: IndexPageOptions): Promise<IndexPage> {
    const { folder, placeholders } = options
    const file = await folder.open(['index.html'])
    try {
      const template = await templateOf(file, placeholders)
      return new IndexPage(options, { template, revision: file.entry.revision })
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
        this.#template = await templateOf(file, this.#placeholders)
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

async function templateOf(file: OpenFile, placeholders: readonly Placeholder[]): Promise<PageTemplate> {
  const bytes = await readPart(file, { offset: 0, length: file.entry.size })
  return new PageTemplate(bytes.toString('utf8'), placeholders)
}
