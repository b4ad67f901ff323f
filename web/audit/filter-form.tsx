/** The form by which events are found. */
import { useLocation } from 'wouter-preact'
import { textOf } from '../components/form-values.ts'
import { textsOf } from '../texts/texts.ts'
import { allKinds, auditAddress, filterNames, isEmpty, kindGroups, type Filter } from './filter.ts'
import './filter-form.css'

const texts = textsOf('events', 'audit')

export function FilterForm({ filter }: { readonly filter: Filter }) {
  const [, navigate] = useLocation()
  const { audit } = texts
  const { fields, kinds } = texts.events
  function show(event: SubmitEvent & { readonly currentTarget: HTMLFormElement }): void {
    event.preventDefault()
    const form = new FormData(event.currentTarget)
    navigate(auditAddress(Object.fromEntries(filterNames.map((name) => [name, textOf(form, name)]))))
  }
  return (
    <form class="filters" onSubmit={show}>
      <label>
        {fields.user}
        <input name="user" autocomplete="off" maxLength={255} value={filter.user} />
      </label>
      <label>
        {audit.path}
        <input name="path" autocomplete="off" placeholder="/" value={filter.path} />
      </label>
      <label>
        {audit.kinds}
        <select name="kind" value={filter.kind}>
          <option value="">{audit.everything}</option>
          {Object.entries(audit.groups).map(([group, title]) => (
            <optgroup key={group} label={title}>
              <option value={group}>{audit.all(title)}</option>
              {allKinds
                .filter((kind) => kindGroups[group as keyof typeof kindGroups].includes(kind))
                .map((kind) => (
                  <option key={kind} value={kind}>
                    {kinds[kind]}
                  </option>
                ))}
            </optgroup>
          ))}
        </select>
      </label>
      <label>
        {audit.result}
        <select name="result" value={filter.result}>
          <option value="">{audit.anyResult}</option>
          {Object.entries(audit.results).map(([result, text]) => (
            <option key={result} value={result}>
              {text}
            </option>
          ))}
        </select>
      </label>
      <label>
        {audit.address}
        <input name="address" autocomplete="off" maxLength={255} title={audit.addressHint} value={filter.address} />
      </label>
      <label>
        {audit.from}
        <input name="from" type="datetime-local" max="9999-12-31T23:59" value={filter.from} />
      </label>
      <label>
        {audit.to}
        <input name="to" type="datetime-local" max="9999-12-31T23:59" value={filter.to} />
      </label>
      <div class="row-buttons">
        <button type="submit" class="primary">
          {audit.show}
        </button>
        {!isEmpty(filter) && (
          <button type="button" onClick={() => navigate(auditAddress({}))}>
            {audit.reset}
          </button>
        )}
      </div>
    </form>
  )
}
