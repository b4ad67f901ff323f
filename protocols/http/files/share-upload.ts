/** Uploads to shares by the URL of a share, for programs such as curl and for plain forms of other pages. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { GatewayError } from '../../../src/base/errors.js'
import { checkName, childOf, parentOf, relativePathError, root, type Path } from '../../../src/base/path.js'
import type { Source } from '../../../src/contract/call-options.js'
import { asVisitor } from '../../../src/shares/visitor-errors.js'
import type { OpenShare } from '../../../src/shares/open-share.js'
import { etagOf } from '../../../src/tree/preconditions.js'
import { parseEntityTags } from '../../lib/conditions.js'
import { drain, receiveBody } from '../../lib/request-body.js'
import { badRequest } from '../api/errors.js'
import { parseQuery } from '../api/fields.js'
import { signalOf, type HttpApi } from '../api/http-api.js'
import { openShare } from '../api/visitors.js'
import { shareUrl } from '../compat/object.js'
import { eachFilePart } from './form-upload.js'
import { codeOf, parseShareUrl } from './share-url.js'

/** Whether the request is a PUT, or a POST of a form with files. */
export function isShareUpload({ method, headers }: IncomingMessage): boolean {
  return method === 'PUT' || (method === 'POST' && /^multipart\/form-data\b/i.test(headers['content-type'] ?? ''))
}

/**
 * Responds to PUT of a file, and to POST of a form whose parts `file` are files of the folder that the URL names. The
 * body of the response is the names that the files got, in lines. Rejects with an error that tells visitors no more
 * than they may know.
 */
export async function uploadShared(api: HttpApi, request: IncomingMessage, response: ServerResponse): Promise<void> {
  try {
    const { url = '/' } = request
    const { id, path, query } = parseShareUrl(url)
    if (/^[^?]*(?:\\|%5c)/i.test(url)) throw relativePathError()
    if (request.headers['content-range'] !== undefined) throw badRequest('an upload of a part is not supported')
    if (request.method === 'PUT' && path === root) throw badRequest('the URL names no file')
    response.setHeader('Cache-Control', 'private, no-store')
    const code = codeOf(request, parseQuery(query))
    const share = await asVisitor(() => openShare(api, request, response, id, code))
    const names = await (request.method === 'PUT'
      ? put(api, request, response, share, path)
      : postForm(request, response, share, path))
    const body = Buffer.from(names.map((name) => `${name}\n`).join(''))
    response
      .writeHead(response.statusCode, { 'Content-Type': 'text/plain; charset=utf-8', 'Content-Length': body.length })
      .end(body)
  } catch (error) {
    void drain(request)
    throw error
  }
}

async function put(
  api: HttpApi,
  request: IncomingMessage,
  response: ServerResponse,
  share: OpenShare,
  path: Path,
): Promise<readonly string[]> {
  const { 'if-match': ifMatch, 'if-none-match': ifNoneMatch } = request.headers
  const conditions = { ifMatch: parseEntityTags(ifMatch), ifNoneMatch: parseEntityTags(ifNoneMatch) }
  const options = { ...conditions, signal: signalOf(response) }
  const source = await receiveBody(request)
  const { entry, created } = await asVisitor(() => share.write(path, source, options))
  response.statusCode = created ? 201 : 200
  if (share.share.mode === 'both') {
    const stored = childOf(parentOf(path), entry.name)
    response.setHeader('ETag', etagOf(entry))
    response.setHeader('Location', shareUrl(api.clientOf(request).baseUrl, share.share.id, stored, {}))
  }
  return [entry.name]
}

async function postForm(
  request: IncomingMessage,
  response: ServerResponse,
  share: OpenShare,
  folder: Path,
): Promise<readonly string[]> {
  const signal = signalOf(response)
  const names: string[] = []
  await eachFilePart(request, signal, async (name, content) => {
    // A field in which no file was chosen has an empty name.
    if (name === '') {
      content.resume()
      return
    }
    const source: Source = { rereadable: false, read: async () => content }
    const { entry } = await asVisitor(() => share.write(childOf(folder, checkName(name)), source, { signal }))
    names.push(entry.name)
  })
  if (names.length === 0) throw new GatewayError('invalid', { reason: 'the form has no file' })
  response.statusCode = 201
  return names
}
