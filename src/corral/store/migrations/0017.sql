-- Unknown cost is reserved, not spent: it counts against limits and is shown beside what is known.
-- sqlite only
UPDATE ledger SET reserved = spent, spent = 0.0 WHERE settled IS NOT NULL AND source = 'unknown';

-- Numbers that an agent printed before they were limited broke every sum.
-- sqlite only
UPDATE ledger SET reserved = 1.0, spent = 0.0, source = 'unknown' WHERE spent > 1e6 OR spent < 0.0;
-- sqlite only
UPDATE ledger SET reserved = 1.0 WHERE reserved > 1e6 OR reserved < 0.0;
-- sqlite only
UPDATE ledger SET input = min(max(input, 0), 9007199254740992), output = min(max(output, 0), 9007199254740992),
  cache_read = min(max(cache_read, 0), 9007199254740992), cache_write = min(max(cache_write, 0), 9007199254740992);
-- sqlite only
UPDATE attempts SET usd = NULL WHERE usd > 1e6 OR usd < 0.0;
