/** Serves a built web client: that of the folder `dist_dir`, or the console. */
import { createHash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { OpenFile } from '../../../src/contract/capabilities.js'
import { percentDecoded } from '../../../src/base/utf8.js'
import { GatewayError, isGatewayError, toGatewayError } from '../../../src/base/errors.js'
import type { Log } from '../../../src/base/log.js'
import type { Config } from '../../../src/installation/config.js'
import type { ProtocolSettings } from '../../../src/gateway/protocol-gateway.js'
import { acceptedEncodings } from '../../lib/accepted-encodings.js'
import { sitePath } from '../../lib/client.js'
import { evaluateConditions } from '../../lib/conditions.js'
import { mediaType, sendOpenFile } from '../../lib/send.js'
import { toErrorResponse } from '../api/errors.js'
import { sendErrorPage } from './pages.js'
import { consoleBuild, consoleFolder } from './console.js'
import { IndexPage } from './index-page.js'
import type { PageValues } from './page-template.js'
import { firstLogo } from './pictures.js'
import { externalClient, type WebBuild } from './web-build.js'
import { isPlainName, WebFolder } from './web-folder.js'

/** 180 days, because file names of a build contain a digest of the content. */
const longCacheControl = 'public, max-age=15552000'

/** Precompressed variants of files that a build may contain, in order of preference. */
const encodings = [
  { name: 'br', extension: '.br' },
  { name: 'gzip', extension: '.gz' },
] as const

const pageHeaders = {
  'Content-Type': 'text/html; charset=utf-8',
  'Cache-Control': 'no-cache',
  'X-Content-Type-Options': 'nosniff',
  // URLs may contain signatures, which must not leak to other sites.
  'Referrer-Policy': 'same-origin',
}

type WebClientConfig = Pick<Config, 'dist_dir' | 'cdn' | 'site_url'>

/** Nothing leads others to a share. */
const shareHeaders = { 'Referrer-Policy': 'no-referrer', 'X-Robots-Tag': 'noindex' }

export class WebClient {
  readonly #folder: WebFolder
  readonly #build: WebBuild
  readonly #index: IndexPage
  /** The base URL from which browsers load the files of the build, without a trailing slash. Empty: this server. */
  readonly #cdn: string
  /** The path of the site, without a trailing slash; empty for the root. */
  readonly #site: string
  readonly #log: Log

  private constructor(
    build: WebBuild,
    folder: WebFolder,
    index: IndexPage,
    { config, log }: { readonly config: WebClientConfig; readonly log: Log },
  ) {
    this.#folder = folder
    this.#build = build
    this.#index = index
    this.#cdn = config.cdn.replace(/\/+$/, '')
    this.#site = sitePath(config.site_url)
    this.#log = log
  }

  /**
   * Opens the web client of `dist_dir`. Rejects with `invalid` and a reason for the admin if the folder has no readable
   * index page.
   */
  static async open(config: WebClientConfig, log: Log): Promise<WebClient> {
    const folder = new WebFolder(config.dist_dir)
    try {
      return await WebClient.#open(externalClient, folder, { config, log })
    } catch (error) {
      const { code } = toGatewayError(error)
      const detail = code === 'not_found' ? 'there is no such file that can be read' : (error as Error).message
      throw new GatewayError('invalid', {
        reason: `bad configuration: dist_dir: ${folder.path}/index.html: ${detail}`,
        cause: error,
      })
    }
  }

  /**
   * Opens the console. Undefined, and a warning in the log, if the folder has no readable index page: the other
   * protocols work without it.
   */
  static async openConsole(
    config: WebClientConfig,
    log: Log,
    path: string = consoleFolder,
  ): Promise<WebClient | undefined> {
    const folder = new WebFolder(path)
    try {
      return await WebClient.#open(consoleBuild, folder, { config, log })
    } catch (error) {
      log.warn({ err: error, folder: folder.path }, 'the console is not built: "npm run build" builds it')
      return undefined
    }
  }

  static async #open(
    build: WebBuild,
    folder: WebFolder,
    options: { readonly config: WebClientConfig; readonly log: Log },
  ): Promise<WebClient> {
    const { placeholders } = build
    return new WebClient(build, folder, await IndexPage.read({ folder, placeholders, log: options.log }), options)
  }

  /** Whether the target (a path relative to the site, with an optional query) is that of a file of the build. */
  isFileTarget(target: string): boolean {
    return this.#build.fileTarget.test(target)
  }

  /** Responds to a request for a file of the build. Never rejects. */
  async sendFile(request: IncomingMessage, response: ServerResponse): Promise<void> {
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
        this.#log.error({ err: error }, 'cannot send file of web client')
      }
      if (response.headersSent || response.destroyed) return
      response.setHeader('Cache-Control', 'no-cache')
      const { status, message } = toErrorResponse(error)
      sendErrorPage(response, status, message)
    }
  }

  async #sendFile(request: IncomingMessage, response: ServerResponse, names: readonly string[]): Promise<void> {
    const { file, encoding } = await this.#openVariant(names, acceptedEncodings(request.headers['accept-encoding']))
    try {
      // Appended, because CORS may have set Vary already.
      response.appendHeader('Vary', 'Accept-Encoding')
      const name = names.at(-1) ?? ''
      const headers: Record<string, string> = { 'Cache-Control': longCacheControl, ...this.#build.filePolicy(name) }
      if (encoding !== undefined) headers['Content-Encoding'] = encoding
      const type = mediaType(name)
      await sendOpenFile(request, response, file, { headers, type, disposition: 'none', trusted: true })
    } finally {
      await file.close()
    }
  }

  /** Opens the best variant of the file that the client accepts. */
  async #openVariant(
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

  /** Sends the index page. The client chooses by the URL what to display. */
  async sendIndexPage(request: IncomingMessage, response: ServerResponse, settings: ProtocolSettings): Promise<void> {
    const template = await this.#index.current()
    // Omits the admin's own HTML from the management page, so that mistakes in it can be corrected.
    const isManagement = /^\/(?:@|%40)manage/.test(request.url ?? '/')
    const body = Buffer.from(template.render(this.#values(settings, !isManagement)))
    const etag = `"${createHash('sha256').update(body).digest('base64url')}"`
    const { 'if-none-match': ifNoneMatch } = request.headers
    const isNotModified =
      request.method !== 'POST' &&
      evaluateConditions({ 'if-none-match': ifNoneMatch }, { etag, modified: new Date() }) === 304
    const isOfShare = /^\/(?:@|%40)s\//.test(request.url ?? '/')
    const headers = { ...pageHeaders, ...this.#build.pagePolicy, ETag: etag, ...(isOfShare && shareHeaders) }
    if (isNotModified) {
      response.writeHead(304, headers).end()
      return
    }
    response.writeHead(200, { ...headers, 'Content-Length': body.length })
    response.end(request.method === 'HEAD' ? undefined : body)
  }

  #values(settings: ProtocolSettings, customized: boolean): PageValues {
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

/** The decoded path segments of the target. Throws `not_found` for an invalid escape or segment. */
function namesOf(target: string): readonly string[] {
  const path = target.split(/[?#]/, 1)[0] ?? ''
  const names = path.slice(1).split('/').map(percentDecoded)
  const isPlain = (name: string | undefined): name is string => name !== undefined && isPlainName(name)
  if (!names.every(isPlain)) throw new GatewayError('not_found')
  return names
}
