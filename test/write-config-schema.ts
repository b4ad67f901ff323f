/** `npm run schema`: writes config/schema.json from the schema that the daemon checks its configuration with. */
import { writeFileSync } from 'node:fs'
import { protocols } from '../protocols/index.js'
import { configFileSchema } from '../src/installation/config.js'

writeFileSync('config/schema.json', configFileSchema(protocols))
