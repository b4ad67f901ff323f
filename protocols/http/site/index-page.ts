/** The index page of a web client, read again when its file has changed. */
import type { OpenFile } from '../../../src/driver.js'
import { toGatewayError } from '../../../src/errors.js'
import type { Log } from '../../../src/log.js'
import { readWhole } from '../../lib/file-body.js'
import { PageTemplate } from './page-template.js'
import type { WebFolder } from './web-folder.js'

/** Milliseconds for which the file is not looked at again. */
const freshFor = 1000

export class IndexPage {
  readonly #folder: WebFolder
  readonly #log: Log
  #template: PageTemplate
  /** Of the file that the template was made from; undefined once it could not be read any more. */
  #revision: string | undefined
  #looked = performance.now()
  #looking: Promise<void> | undefined

  private constructor(folder: WebFolder, log: Log, template: PageTemplate, revision: string | undefined) {
    this.#folder = folder
    this.#log = log
    this.#template = template
    this.#revision = revision
  }

  /** Rejects with `not_found` where the folder holds no `index.html` that can be read. */
  static async read(folder: WebFolder, log: Log): Promise<IndexPage> {
    const file = await folder.open(['index.html'])
    try {
      return new IndexPage(folder, log, await templateOf(file), file.entry.revision)
    } finally {
      await file.close()
    }
  }

  /** As it is on the disk, or was a second ago; while it cannot be read, as it was last. Never rejects. */
  async current(): Promise<PageTemplate> {
    if (performance.now() - this.#looked >= freshFor) {
      this.#looking ??= this.#look().finally(() => {
        this.#looked = performance.now()
        this.#looking = undefined
      })
      await this.#looking
    }
    return this.#template
  }

  async #look(): Promise<void> {
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
      // A build may be on its way into the folder; one line is enough.
      if (this.#revision !== undefined) {
        const { code, reason } = toGatewayError(error)
        this.#log.warn({ code, reason, folder: this.#folder.path }, 'the index page of the web client cannot be read')
      }
      this.#revision = undefined
    }
  }
}

async function templateOf(file: OpenFile): Promise<PageTemplate> {
  const bytes = await readWhole(file, { offset: 0, length: file.entry.size })
  return new PageTemplate(bytes.toString('utf8'))
}
