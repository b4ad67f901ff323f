/** The version and the environment of the daemon. */
import { Link } from 'wouter-preact'
import { get } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { Failure } from '../components/failure.tsx'
import { formatTime } from '../texts/format.ts'
import { Page } from '../components/page.tsx'
import { useRows } from '../components/rows.ts'
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('common', 'admin')

export function AboutPage() {
  const { data, error } = useRows(keys.about, () => get('/api/admin/about'))
  const { about } = texts
  return (
    <Page title={texts.pages.about}>
      {error && <Failure error={error} />}
      {data && (
        <dl>
          <dt>{about.version}</dt>
          <dd>{data.version}</dd>
          <dt>{about.node}</dt>
          <dd>{data.node}</dd>
          <dt>{about.platform}</dt>
          <dd>{data.platform}</dd>
          <dt>{about.started}</dt>
          <dd>{formatTime(data.started)}</dd>
          <dt>{about.data}</dt>
          <dd>{data.data}</dd>
          <dt>{about.addresses}</dt>
          <dd>
            {Object.entries(data.addresses).map(([protocol, address]) => (
              <div key={protocol}>{`${protocol}: ${address}`}</div>
            ))}
          </dd>
        </dl>
      )}
      <p>
        <Link href="/@manual">{texts.manual}</Link>
      </p>
      <p>
        <a href="api/docs">{about.api}</a>
      </p>
    </Page>
  )
}
