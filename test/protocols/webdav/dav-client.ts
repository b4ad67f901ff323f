/** A WebDAV client for tests, which sends requests unchanged. */
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { parseXml, textOf, type XmlElement } from '../../../protocols/webdav/xml.js'
import type { RunningGateway } from '../../gateway.js'

export interface Reply {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

export type Send = (
  method: string,
  path: string,
  headers?: Record<string, string>,
  body?: string | Buffer,
) => Promise<Reply>

interface Caller {
  /** Replaces the admin's credentials; empty: none. */
  readonly authorization?: string
  /** The path of WebDAV. */
  readonly prefix?: string
}

/** Appends the path to the prefix unchanged. */
export function sender(running: Pick<RunningGateway, 'url' | 'adminPassword'>, caller: Caller = {}): Send {
  const { protocol, hostname, port } = new URL(running.url)
  const request = protocol === 'https:' ? httpsRequest : httpRequest
  const { authorization = basic('admin', running.adminPassword), prefix = '/dav' } = caller
  return (method, path, headers = {}, body) =>
    new Promise((resolve, reject) => {
      const sent = request(
        {
          hostname,
          port,
          // The certificate of a test is self-signed.
          rejectUnauthorized: false,
          method,
          path: prefix + path,
          headers: { ...(authorization === '' ? {} : { authorization }), ...headers },
        },
        (response) => {
          const chunks: Buffer[] = []
          response.on('data', (chunk: Buffer) => chunks.push(chunk))
          response.on('error', reject)
          response.on('end', () => {
            const { statusCode = 0 } = response
            resolve({ status: statusCode, headers: response.headers, body: Buffer.concat(chunks).toString() })
          })
        },
      )
      sent.on('error', reject)
      sent.end(body)
    })
}

export function basic(username: string, password: string): string {
  return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
}

/** The element itself and all its descendants with this name. */
export function find(element: XmlElement, name: string): XmlElement[] {
  const children = element.children.filter((child) => typeof child === 'object')
  return [...(element.name === name ? [element] : []), ...children.flatMap((child) => find(child, name))]
}

export const texts = (xml: string, name: string): string[] => find(parseXml(xml), name).map(textOf)

export const propfind = (names: string): string =>
  `<D:propfind xmlns:D="DAV:" xmlns:O="http://owncloud.org/ns"><D:prop>${names}</D:prop></D:propfind>`

export const proppatch = (set: string, remove = ''): string =>
  `<D:propertyupdate xmlns:D="DAV:" xmlns:M="urn:schemas-microsoft-com:">` +
  (set && `<D:set><D:prop>${set}</D:prop></D:set>`) +
  (remove && `<D:remove><D:prop>${remove}</D:prop></D:remove>`) +
  '</D:propertyupdate>'

export const lockinfo = (scope: string): string =>
  `<D:lockinfo xmlns:D="DAV:"><D:lockscope><D:${scope}/></D:lockscope><D:locktype><D:write/></D:locktype>` +
  '<D:owner><D:href>mailto:someone</D:href></D:owner></D:lockinfo>'

export const tokenOf = ({ headers }: Reply): string => String(headers['lock-token'])
