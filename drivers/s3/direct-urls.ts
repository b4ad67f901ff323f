/** Presigned URLs, by which a client downloads a file without credentials for a limited time. */
import { GetObjectCommand } from '@aws-sdk/client-s3'
import { getSignedUrl } from '@aws-sdk/s3-request-presigner'
import type { DirectUrl } from '../../src/contract/capabilities.js'
import { parseServerUrl, type BucketClient } from './client.js'
import type { S3Options } from './index.js'

/** Seconds; the maximum lifetime of a presigned URL. */
const maxLifetime = 7 * 24 * 3600

/** Returns the direct URL of an object: presigned, or on the custom host. `name` is the file name of the download. */
export async function createDirectUrl(
  client: BucketClient,
  options: S3Options,
  key: string,
  name: string,
): Promise<DirectUrl> {
  const { endpoint, custom_host: customHost, remove_bucket: removeBucket } = options
  const host =
    customHost === ''
      ? undefined
      : parseServerUrl(customHost, 'custom_host', parseServerUrl(endpoint, 'endpoint').protocol)
  const seconds = Math.max(1, Math.min(maxLifetime, Math.round(options.sign_url_expire * 3600)))
  const disposition = dispositionOf(name, options.add_filename_to_disposition)
  const command = new GetObjectCommand({ Bucket: client.bucket, Key: key, ResponseContentDisposition: disposition })
  if (host) {
    // The signature covers the host, so the custom host must be set before signing.
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

/** `Content-Disposition` (RFC 6266). `plain` adds a fallback name for clients that do not support RFC 8187. */
function dispositionOf(name: string, plain: boolean): string {
  const encoded = encodeURIComponent(name).replace(
    /['()*]/g,
    (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  const fallback = name.replace(/[^ -~]|["\\%]/gu, '_')
  return `attachment; ${plain ? `filename="${fallback}"; ` : ''}filename*=UTF-8''${encoded}`
}
