/** Addresses at which anybody can fetch a file for a while. */
import { GetObjectCommand } from '@aws-sdk/client-s3'
import { getSignedUrl } from '@aws-sdk/s3-request-presigner'
import type { Link } from '../../src/driver.js'
import { addressOf, type BucketClient } from './client.js'
import type { S3Options } from './index.js'

/** Seconds; no server takes signatures that are good for longer. */
const longest = 7 * 24 * 3600

export async function linkTo(client: BucketClient, options: S3Options, key: string, name: string): Promise<Link> {
  const { endpoint, custom_host: customHost, remove_bucket: removeBucket } = options
  const host =
    customHost === '' ? undefined : addressOf(customHost, 'custom_host', addressOf(endpoint, 'endpoint').protocol)
  const seconds = Math.max(1, Math.min(longest, Math.round(options.sign_url_expire * 3600)))
  const disposition = dispositionOf(name, options.add_filename_to_disposition)
  const command = new GetObjectCommand({ Bucket: client.bucket, Key: key, ResponseContentDisposition: disposition })
  if (host) {
    // The signature covers the host: it has to be the public one before that is made.
    command.middlewareStack.add(
      (next) => async (args) => {
        const request = args.request as RequestAddress
        request.protocol = host.protocol
        request.hostname = host.hostname
        request.port = host.port === '' ? undefined : Number(host.port)
        request.headers.host = host.host
        return next(args)
      },
      { step: 'build', name: 'customHost' },
    )
  }
  const until = new Date(Date.now() + seconds * 1000)
  const url = new URL(await getSignedUrl(client.client, command, { expiresIn: seconds }))
  if (!host) return { url: url.href, until }
  const bucket = `/${client.bucket}/`
  if (removeBucket && url.pathname.startsWith(bucket)) url.pathname = url.pathname.slice(bucket.length - 1)
  if (options.enable_custom_host_presign) return { url: url.href, until }
  url.search = ''
  return { url: url.href }
}

interface RequestAddress {
  protocol: string
  hostname: string
  port?: number | undefined
  readonly headers: Record<string, string>
}

/** RFC 6266; `plain`: with a name also for those that do not know RFC 8187. */
function dispositionOf(name: string, plain: boolean): string {
  const encoded = encodeURIComponent(name).replace(
    /['()*]/g,
    (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  const fallback = name.replace(/[^ -~]|["\\%]/gu, '_')
  return `attachment; ${plain ? `filename="${fallback}"; ` : ''}filename*=UTF-8''${encoded}`
}
