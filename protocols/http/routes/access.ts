/** How the current user reaches the server by each protocol. An extension of this gateway, described in docs/api.md. */
import { z } from 'zod'
import { splitAddress } from '../../../src/net/addresses.js'
import type { Client } from '../../lib/client.js'
import { endpoint } from '../api/endpoint.js'
import type { HttpApi } from '../api/http-api.js'

const sftpData = z
  .object({
    host: z.string().describe('That of the request, or of `site_url`.'),
    port: z.int(),
    host_keys: z.array(
      z
        .object({
          type: z.string().meta({ example: 'ssh-ed25519' }),
          fingerprint: z.string().describe('As OpenSSH shows it: `SHA256:` and base64.'),
        })
        .meta({ id: 'HostKey' }),
    ),
  })
  .meta({ id: 'SftpAccess' })

const accessData = z.object({
  webdav: z.string().describe('The URL of WebDAV.'),
  sftp: sftpData.nullable().describe('Null if SFTP is off.'),
  api: z.string().describe('The URL below which the endpoints are.'),
  secure: z.boolean().describe('Whether the client uses TLS.'),
})

function sftpAccess({ gateway }: HttpApi, { origin }: Client): z.input<typeof sftpData> | null {
  const { addresses, fingerprints } = gateway.listening
  const address = addresses.sftp ?? 'off'
  if (address === 'off') return null
  const host = new URL(origin).hostname.replace(/^\[(.*)\]$/, '$1')
  return { host, port: splitAddress(address).port, host_keys: [...(fingerprints.sftp ?? [])] }
}

export const accessEndpoints = [
  endpoint({
    method: 'get',
    path: '/api/me/access',
    tag: 'Own account',
    summary: 'Get the addresses by which this client reaches the server',
    description: 'Behind a proxy, SFTP may have another host and port.',
    access: 'guest',
    data: accessData,
    answer({ api, context }) {
      const client = api.clientOf(context.req)
      const { baseUrl, secure } = client
      return { webdav: `${baseUrl}/dav/`, sftp: sftpAccess(api, client), api: `${baseUrl}/api/`, secure }
    },
  }),
]
