-- Health of every kind of sallyport.dev, by the six steps of kstatus: the first that fits decides.
local status = obj.status or {}
local conditions = status.conditions or {}
local function answer(health, message)
  return { status = health, message = message }
end

if obj.metadata.deletionTimestamp ~= nil then
  return answer("Progressing", "it is being deleted")
end
if status.observedGeneration ~= nil and status.observedGeneration ~= obj.metadata.generation then
  return answer("Progressing", "its newest generation is not observed yet")
end
for _, condition in ipairs(conditions) do
  if condition.status == "True" and condition.type == "Reconciling" then
    return answer("Progressing", condition.message)
  end
  if condition.status == "True" and condition.type == "Stalled" then
    return answer("Degraded", condition.message)
  end
end
for _, condition in ipairs(conditions) do
  if condition.type == "Ready" then
    if condition.status == "True" then
      return answer("Healthy", condition.message)
    end
    return answer("Progressing", condition.message)
  end
end
return answer("Healthy", "it says nothing about being ready")
