/** A built web client that an admin put into a folder, served as the pages of this site. */
import { createHash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Config } from '../../../src/config.js'
import type { OpenFile } from '../../../src/driver.js'
import { GatewayError, isGatewayError, toGatewayError } from '../../../src/errors.js'
import type { Log } from '../../../src/log.js'
import type { Settings } from '../../../src/settings.js'
import { sitePath } from '../../lib/client.js'
import { judgeConditions } from '../../lib/conditions.js'
import { mediaType, sendOpenFile } from '../../lib/send.js'
import { wireAnswer } from '../errors.js'
import { sendErrorPage } from '../pages.js'
import { IndexPage } from './index-page.js'
import type { PageValues } from './page-template.js'
import { firstLogo } from './pictures.js'
import { isPlainName, WebFolder } from './web-folder.js'

/** The folders of a build whose files are asked for by name. Everything else is a page of the client. */
const fileTarget = /^\/(?:assets|images|streamer|static)\/(?!manifest\.json(?:\?|$))/

/** 180 days: builds put a digest of the content into the names of their files. */
const keptLong = 'public, max-age=15552000'

/** Files that a build may hold beside the plain ones, best first. */
const encodings = [
  { name: 'br', extension: '.br' },
  { name: 'gzip', extension: '.gz' },
] as const

const pageHeaders = {
  'Content-Type': 'text/html; charset=utf-8',
  'Cache-Control': 'no-cache',
  'X-Content-Type-Options': 'nosniff',
  // Links to files carry signatures: other sites are not told where somebody came from.
  'Referrer-Policy': 'same-origin',
  // Who may see the client in a frame may have a signed-in admin click in it.
  'Content-Security-Policy': "frame-ancestors 'self'",
}

export type WebClientConfig = Pick<Config, 'dist_dir' | 'cdn' | 'site_url'>

export class WebClient {
  readonly #folder: WebFolder
  readonly #index: IndexPage
  /** Where browsers load the files of the build from instead, without a trailing slash; empty: from here. */
  readonly #cdn: string
  /** The path of the site, without a trailing slash; empty for the root. */
  readonly #site: string
  readonly #log: Log

  private constructor(folder: WebFolder, index: IndexPage, config: WebClientConfig, log: Log) {
    this.#folder = folder
    this.#index = index
    this.#cdn = config.cdn.replace(/\/+$/, '')
    this.#site = sitePath(config.site_url)
    this.#log = log
  }

  /** Rejects with `invalid`, in one sentence for the admin, where `dist_dir` holds no index page that can be read. */
  static async open(config: WebClientConfig, log: Log): Promise<WebClient> {
    const folder = new WebFolder(config.dist_dir)
    try {
      return new WebClient(folder, await IndexPage.read(folder, log), config, log)
    } catch (error) {
      const { code } = toGatewayError(error)
      const why = code === 'not_found' ? 'there is no such file that can be read' : (error as Error).message
      throw new GatewayError('invalid', {
        reason: `bad configuration: dist_dir: ${folder.path}/index.html: ${why}`,
        cause: error,
      })
    }
  }

  /** Whether the target (a path below the site, maybe with a query) names a file of the build. */
  servesFile(target: string): boolean {
    return fileTarget.test(target)
  }

  /** Answers a request for a file of the build; never rejects. */
  async answerFile(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      if (request.method !== 'GET' && request.method !== 'HEAD') {
        response.writeHead(405, { Allow: 'GET, HEAD', 'Content-Length': 0 }).end()
        return
      }
      const names = namesOf(request.url ?? '/')
      if (this.#cdn === '') {
        await this.#sendFile(request, response, names)
      } else {
        const address = [this.#cdn, ...names.map(encodeURIComponent)].join('/')
        response.writeHead(302, { Location: address, 'Content-Length': 0 }).end()
      }
    } catch (error) {
      if (!isGatewayError(error, 'not_found') && !isGatewayError(error, 'aborted')) {
        this.#log.error({ err: error }, 'a file of the web client could not be sent')
      }
      if (response.headersSent || response.destroyed) return
      response.setHeader('Cache-Control', 'no-cache')
      const { status, message } = wireAnswer(error)
      sendErrorPage(response, status, message)
    }
  }

  async #sendFile(request: IncomingMessage, response: ServerResponse, names: readonly string[]): Promise<void> {
    const { file, encoding } = await this.#bestOf(names, acceptedEncodings(request.headers['accept-encoding']))
    try {
      // Added, not set: CORS may have named another header.
      response.appendHeader('Vary', 'Accept-Encoding')
      const headers: Record<string, string> = { 'Cache-Control': keptLong }
      if (encoding !== undefined) headers['Content-Encoding'] = encoding
      const type = mediaType(names.at(-1) ?? '')
      await sendOpenFile(request, response, file, { headers, type, disposition: 'none', trusted: true })
    } finally {
      await file.close()
    }
  }

  /** The file, or what the build holds of it in an encoding that the client takes. */
  async #bestOf(
    names: readonly string[],
    accepted: ReadonlySet<string>,
  ): Promise<{ readonly file: OpenFile; readonly encoding?: string }> {
    for (const { name, extension } of encodings) {
      if (!accepted.has(name)) continue
      try {
        const file = await this.#folder.open([...names.slice(0, -1), `${names.at(-1) ?? ''}${extension}`])
        return { file, encoding: name }
      } catch (error) {
        if (!isGatewayError(error, 'not_found')) throw error
      }
    }
    return { file: await this.#folder.open(names) }
  }

  /** Answers with the index page, which finds out for itself what it is to show. */
  async answerPage(request: IncomingMessage, response: ServerResponse, settings: Settings): Promise<void> {
    const template = await this.#index.current()
    // Without what the admin put into pages, so that a mistake in it can be mended.
    const isManaging = /^\/(?:@|%40)manage/.test(request.url ?? '/')
    const body = Buffer.from(template.render(this.#values(settings, !isManaging)))
    const etag = `"${createHash('sha256').update(body).digest('base64url')}"`
    const { 'if-none-match': ifNoneMatch } = request.headers
    const isKnown =
      request.method !== 'POST' &&
      judgeConditions({ 'if-none-match': ifNoneMatch }, { etag, modified: new Date() }) === 304
    if (isKnown) {
      response.writeHead(304, { ...pageHeaders, ETag: etag }).end()
      return
    }
    response.writeHead(200, { ...pageHeaders, ETag: etag, 'Content-Length': body.length })
    response.end(request.method === 'HEAD' ? undefined : body)
  }

  #values(settings: Settings, customized: boolean): PageValues {
    return {
      cdn: this.#cdn || this.#site,
      site: this.#site,
      title: settings.get('site_title'),
      mainColor: settings.get('main_color'),
      favicon: settings.get('favicon').trim(),
      logo: firstLogo(settings),
      head: customized ? settings.get('customize_head') : '',
      body: customized ? settings.get('customize_body') : '',
    }
  }
}

/** The names on the way to a file. `not_found` where an escape is broken or hides what no name holds. */
function namesOf(target: string): readonly string[] {
  const path = target.split(/[?#]/, 1)[0] ?? ''
  let names: readonly string[]
  try {
    names = path.slice(1).split('/').map(decodeURIComponent)
  } catch (error) {
    throw new GatewayError('not_found', { cause: error })
  }
  if (!names.every(isPlainName)) throw new GatewayError('not_found')
  return names
}

/** The codings of an Accept-Encoding header (RFC 9110 §12.5.3) but those with a weight of zero. */
function acceptedEncodings(header: string | string[] | undefined): ReadonlySet<string> {
  const parts = (header ?? '').toString().toLowerCase().split(',')
  const accepted = parts.filter((part) => !/;\s*q=0(?:\.0*)?\s*$/.test(part))
  return new Set(accepted.map((part) => part.split(';', 1)[0]?.trim() ?? ''))
}
