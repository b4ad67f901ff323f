/**
 * A strict double of Quark and UC: it checks what the vendor checks, stores what it is sent, and has the vendor's
 * oddities.
 *
 * What is not published is assumed: the codes of refusals other than their texts, that a missing id is answered with
 * status 404, that parts are of exactly the size that the API names, and that the store accepts them in any order. What
 * happens to names that are taken is an option, since accounts of it differ.
 */
import type { RequestListener } from 'node:http'
import type { Test } from 'tap'
import type { Elsewhere } from '../driver-conformance/subject.js'
import { serveVendorHosts } from '../servers/vendor-hosts.js'
import { Contents } from './contents.js'
import { QuarkApi } from './quark/api.js'
import { QuarkDownloads } from './quark/downloads.js'
import { QuarkDrive, rootId, type SameName } from './quark/drive.js'
import { QuarkQrCodes } from './quark/qr-codes.js'
import { QuarkSession } from './quark/session.js'
import { QuarkUploads } from './quark/uploads.js'
import { foreignHost, quark, uc, type QuarkVendor } from './quark/vendor.js'
import { Requests } from './requests.js'

interface QuarkOptions {
  /** Milliseconds for which a listing does not show a change; default: 0. */
  readonly lag?: number
  /** What is done with a taken name. Default: refuse. */
  readonly sameName?: SameName
  /** Bytes of each part but the last; default: 4 MiB. */
  readonly partSize?: number
}

export type QuarkDouble = Awaited<ReturnType<typeof start>>

export function startQuark(t: Test, options: QuarkOptions = {}): Promise<QuarkDouble> {
  return start(t, quark, options)
}

export function startUc(t: Test, options: QuarkOptions = {}): Promise<QuarkDouble> {
  return start(t, uc, options)
}

async function start(t: Test, vendor: QuarkVendor, options: QuarkOptions) {
  const { lag = 0, sameName = 'refuse', partSize = 4 * 1024 * 1024 } = options
  const contents = new Contents(t)
  const requests = new Requests()
  const session = new QuarkSession(vendor)
  const drive = new QuarkDrive(lag, sameName)
  const uploads = new QuarkUploads(vendor, drive, contents, partSize)
  const downloads = new QuarkDownloads(vendor, session, contents)
  const api = new QuarkApi({ vendor, session, drive, uploads, downloads })
  // The vendor knows the digests of an empty file, which has no parts to send.
  await contents.add('')
  const download: RequestListener = (request, response) => void downloads.serve(request, response)
  const qrCodes = new QuarkQrCodes(session)
  const codes = requests.observed((request, response) => qrCodes.answer(request, response))
  const environment = await serveVendorHosts(t, {
    // Only Quark has codes.
    ...(vendor === quark && { 'uop.quark.cn': codes, 'pan.quark.cn': codes }),
    [vendor.api]: requests.observed((request, response) => void api.answer(request, response)),
    [`ul-zb.${vendor.store}`]: requests.observed(uploads.oss.listener),
    [`*.${vendor.store}`]: requests.observed(download),
    [foreignHost]: requests.observed(download),
  })
  return {
    vendor,
    /** Environment variables by which a started daemon reaches the double. */
    environment,
    /** The log of all requests to all hosts, and faults to inject. */
    requests,
    /** The cookie, and how it is renewed or ended. */
    session,
    /** The codes by which a browser signs in. */
    qrCodes,
    /** Direct access to files and folders by their ids. */
    drive,
    uploads,
    /** Switches for download URLs. */
    downloads,
    contents,
    elsewhere: elsewhereOf(drive, contents),
    /** A content that the vendor knows from then on, so that uploads of it need no bytes. */
    learn: (bytes: string | Buffer) => contents.add(bytes),
  }
}

/** Changes by another program. */
function elsewhereOf(drive: QuarkDrive, contents: Contents): Elsewhere {
  /** The id of the entry at a path below `from`; missing folders are created. */
  const find = (path: string): string => {
    let id = rootId
    for (const name of path.split('/').filter((part) => part !== '')) {
      const found = drive.members(id).find((node) => node.name === name)
      id = (found ?? drive.create(id, name)).fid
    }
    return id
  }
  const create = async (folder: string, name: string, content: string) => {
    drive.create(find(folder), name, await contents.add(content))
  }
  const split = (path: string) => [path.slice(0, path.lastIndexOf('/')), path.slice(path.lastIndexOf('/') + 1)] as const
  return {
    create,
    replace: async (path, content) => {
      drive.remove(find(path))
      await create(...split(path), content)
    },
    replaceFolder: async (path, files) => {
      drive.remove(find(path))
      for (const [relative, content] of Object.entries(files)) await create(...split(`${path}/${relative}`), content)
    },
  }
}
