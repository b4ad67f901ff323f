/** The software bill of materials in the format of CycloneDX: what is in a package, with versions and licenses. */
import { createHash } from 'node:crypto'
import { nodeVersion, type Program } from './native.js'
import { run } from './run.js'

interface Bill {
  serialNumber: string
  metadata: { timestamp: string; [key: string]: unknown }
  components: Record<string, unknown>[]
}

/**
 * The bill of an installed program, as JSON. The same program has the same bill: the serial number is made from the
 * content, and the time, in seconds since 1970, is given.
 */
export async function billOfMaterials({ folder }: Program, time: number): Promise<string> {
  const written = await run('npm', ['sbom', '--omit=dev', '--sbom-format=cyclonedx'], { folder })
  const bill = JSON.parse(written) as Bill
  bill.metadata.timestamp = new Date(time * 1000).toISOString()
  bill.serialNumber = ''
  bill.components.push({
    'bom-ref': `node@${nodeVersion}`,
    type: 'platform',
    name: 'node',
    version: nodeVersion,
    purl: `pkg:generic/node@${nodeVersion}`,
    licenses: [{ license: { id: 'MIT' } }],
  })
  bill.components.sort((one, other) => (String(one['bom-ref']) < String(other['bom-ref']) ? -1 : 1))
  const digest = createHash('sha256').update(JSON.stringify(bill)).digest('hex')
  bill.serialNumber = `urn:uuid:${uuidOf(digest)}`
  return `${JSON.stringify(bill, null, 2)}\n`
}

/** A UUID of version 8, whose bits are the digest's (RFC 9562, section 5.8). */
function uuidOf(digest: string): string {
  const variant = ((parseInt(digest.charAt(16), 16) & 0x3) | 0x8).toString(16)
  const parts = [
    digest.slice(0, 8),
    digest.slice(8, 12),
    `8${digest.slice(13, 16)}`,
    `${variant}${digest.slice(17, 20)}`,
  ]
  return [...parts, digest.slice(20, 32)].join('-')
}
